"""The pass over one McpProxy: read everything, decide, bring it about, look, say what was seen.

A full pass reads from the API server. A look asks only the registries, with what the last full pass read; it is what
follows a change until all has settled, and what notices a backend that fails. Either may be interrupted anywhere: the
next one begins from what it finds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mcp_connections.api.connection_status import PodStatus
from mcp_connections.api.reasons import ProxyReason
from mcp_connections.mounts.acceptance import ProxyRejection, proxy_rejection
from mcp_connections.mounts.candidates import connection_key
from mcp_connections.mounts.conditions import connection_status_in, proxy_status
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts
from mcp_connections.operator.admin_client import AdminClient
from mcp_connections.operator.applying import Applier
from mcp_connections.operator.bridges import Bridges
from mcp_connections.operator.cluster import POD, SECRET, Cluster
from mcp_connections.operator.gather import Facts, gather
from mcp_connections.operator.labels import selector
from mcp_connections.operator.mount_secrets import admin_secret_name, token_of
from mcp_connections.operator.owned_objects import Refused
from mcp_connections.operator.pacing import Pace, is_settled
from mcp_connections.operator.pods import Answer, Replica, Replicas, replicas_of
from mcp_connections.operator.references import References
from mcp_connections.operator.statuses import StatusWriter, Update
from mcp_connections.operator.trigger import ProxyKey
from mcp_connections.operator.workload import endpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a pass leaves to do."""

    wait: float
    """Seconds until the next look."""
    is_gone: bool = False
    """Nothing is left of the proxy, nor any connection that refers to it."""


@dataclass(frozen=True, kw_only=True)
class _Scene:
    """What a look goes by."""

    facts: Facts
    desired: DesiredMounts
    rejection: ProxyRejection | None
    token: str | None
    replicas: Sequence[Replica]
    bridge_pods: Mapping[ConnectionKey, PodStatus]


class ProxyReconciler:
    """All there is to know about one McpProxy between two passes: a cache, never the truth."""

    def __init__(
        self,
        key: ProxyKey,
        *,
        cluster: Cluster,
        admin: AdminClient,
        references: References,
        statuses: StatusWriter,
        default_image: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._key = key
        self._cluster = cluster
        self._references = references
        self._statuses = statuses
        self._applier = Applier(cluster, default_image)
        self._bridges = Bridges(cluster, default_image)
        self._pods = Replicas(admin)
        self._pace = Pace()
        self._now = now
        self._scene: _Scene | None = None
        self._facts: Facts | None = None
        self._desired = DesiredMounts()
        self._reported: tuple[Any, ...] = ()
        """What the last report went by that was written in full."""
        self._errors: dict[str, str] = {}
        self._refused_bridges: Mapping[ConnectionKey, str] = {}
        self._refusal = ""

    async def full_pass(self) -> Outcome:
        """Read everything and bring it about. Raises ClusterError."""
        self._scene = None
        self._pace.restart()
        facts = await gather(self._cluster, self._key, self._references, self._facts)
        if facts.is_nothing:
            await self._bridges.stage(facts, DesiredMounts(), in_force=True)
            return Outcome(wait=0, is_gone=True)
        self._scene = await self._stage(facts)
        return await self._look(self._scene)

    async def look(self) -> Outcome:
        """Ask the registries again. Raises ClusterError."""
        return await (self._look(self._scene) if self._scene else self.full_pass())

    async def _stage(self, facts: Facts) -> _Scene:
        desired = self._desired_by(facts)
        rejection = _rejection(facts)
        token: str | None = None
        refusal = ""
        in_force = rejection is None and not facts.is_deleting
        bridged = await self._bridges.stage(facts, desired, in_force=in_force)
        desired = bridged.desired
        self._log_refused_bridges(bridged.refused)
        if facts.proxy is not None and in_force:
            try:
                token = await self._applier.apply(facts.proxy, desired)
            except Refused as error:
                refusal = str(error)
                rejection = ProxyRejection(reason=ProxyReason.APPLY_FAILED, message=refusal)
        self._log_refusal(refusal)
        replicas: list[Replica] = []
        if facts.proxy is not None:
            token = token or await self._present_token()
            pods = await self._cluster.list_all(POD, self._key.namespace, label_selector=selector(self._key.name))
            replicas = replicas_of(pods)
        return _Scene(
            facts=facts,
            desired=desired,
            rejection=rejection,
            token=token,
            replicas=replicas,
            bridge_pods=bridged.pods,
        )

    def _desired_by(self, facts: Facts) -> DesiredMounts:
        if self._facts is None or _ingredients(facts) != _ingredients(self._facts):
            candidates = [each.candidate for each in facts.connections]
            self._desired = desired_mounts(facts.proxy, candidates, facts.secret_data, "Cluster")
        self._facts = facts
        return self._desired

    async def _present_token(self) -> str | None:
        """The token of pods that run already, for a proxy that is not applied."""
        secret = await self._cluster.get(SECRET, self._key.namespace, admin_secret_name(self._key.name))
        return token_of(secret)

    async def _look(self, scene: _Scene) -> Outcome:
        answers = await self._answers(scene)
        await self._report(scene, answers)
        return Outcome(wait=self._pace.wait(settled=is_settled(answers)))

    async def _answers(self, scene: _Scene) -> list[Answer]:
        if scene.token is None:
            return [Answer(replica=replica, error="its admin token is not known") for replica in scene.replicas]
        # What is not accepted is not put in force: the pods stay as they are.
        if scene.rejection is not None or scene.facts.is_deleting:
            return await self._pods.observe(scene.replicas, scene.token)
        return await self._pods.drive(scene.replicas, scene.token, scene.desired)

    async def _report(self, scene: _Scene, answers: Sequence[Answer]) -> None:
        facts, now = scene.facts, self._now()
        self._log_errors(answers)
        basis = (facts, scene.desired, scene.rejection, scene.bridge_pods, self._statuses.schema_version, *answers)
        if basis == self._reported:
            return
        self._reported = ()
        seen = Observation(scene.desired, [answer.report for answer in answers], pods=scene.bridge_pods)
        statuses = {
            connection_key(each.candidate): connection_status_in(seen, each.candidate, each.live.get("status"), now)
            for each in facts.connections
        }
        updates = [
            Update(live=each.live, status=statuses[connection_key(each.candidate)]) for each in facts.connections
        ]
        if facts.proxy is not None and facts.proxy_live is not None:
            status = proxy_status(
                facts.proxy,
                scene.desired,
                [answer.report for answer in answers],
                statuses,
                facts.proxy_live.get("status"),
                now,
                endpoint=endpoint(facts.proxy),
                ready_pods=sum(answer.replica.ready for answer in answers),
                rejection=scene.rejection,
            )
            updates.append(Update(live=facts.proxy_live, status=status))
        if written := await self._statuses.write(updates):
            log.info("McpProxy %s: %d of %d statuses written", facts.key, written, len(updates))
        self._reported = basis

    def _log_refusal(self, refusal: str) -> None:
        """Once for each change, not once for each pass."""
        if refusal and refusal != self._refusal:
            log.warning("McpProxy %s: %s", self._key, refusal)
        self._refusal = refusal

    def _log_refused_bridges(self, refused: Mapping[ConnectionKey, str]) -> None:
        for key, refusal in refused.items():
            if self._refused_bridges.get(key) != refusal:
                log.warning("McpConnection %s: %s", key, refusal)
        self._refused_bridges = refused

    def _log_errors(self, answers: Sequence[Answer]) -> None:
        """Once for each change, not once for each look."""
        errors = {answer.replica.name: answer.error for answer in answers if answer.error is not None}
        ready = {answer.replica.name for answer in answers if answer.replica.ready}
        for pod, error in errors.items():
            if self._errors.get(pod) != error:
                log.log(
                    logging.WARNING if pod in ready else logging.INFO,
                    "Pod %s of McpProxy %s: %s",
                    pod,
                    self._key,
                    error,
                )
        self._errors = errors


def _ingredients(facts: Facts) -> tuple[Any, ...]:
    """All that the desired mounts are made from."""
    return facts.proxy, [each.candidate for each in facts.connections], facts.secret_data


def _rejection(facts: Facts) -> ProxyRejection | None:
    if facts.proxy is None:
        return None
    if facts.proxy_error is not None:
        return ProxyRejection(reason=ProxyReason.INVALID_SPEC, message=facts.proxy_error)
    return proxy_rejection(facts.proxy, facts.secret_data)
