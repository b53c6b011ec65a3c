"""A proxy's life in virtual time: resources, pure stand-ins for its registries, and a log of every step.

The stand-ins carry out plans to the letter and do nothing by themselves: a mount is up when the story says so, and a
retired one closes when the story says so.
"""

from __future__ import annotations

import random
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.candidates import Candidate, connection_key
from mcp_connections.mounts.conditions import connection_status_in, proxy_status
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.plan import Add, Plan, Reject, Replace, Retire, plan
from mcp_connections.mounts.report import MountReport, RegistryReport, RetiredMount
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts
from tests.mounts.resources import Data, at, failing, mounted, proxy


class Replica:
    """A registry that does as planned."""

    def __init__(self) -> None:
        self.mounts: dict[str, MountReport] = {}
        self.retired: list[RetiredMount] = []
        self.desired = DesiredMounts()
        self.reachable = True

    def report(self) -> RegistryReport | None:
        if not self.reachable:
            return None
        return RegistryReport(
            instance="i",
            ready=True,
            separator=self.desired.separator,
            mounts=tuple(self.mounts.values()),
            retired=tuple(self.retired[-20:]),
            rejected=self.desired.rejected,
        )

    def apply(self, desired: DesiredMounts, steps: Plan, now: float) -> None:
        self.desired = desired
        for action in steps.actions:
            name = action.connection.name
            if isinstance(action, Replace | Retire):
                gone = self.mounts.pop(name)
                self.retired.append(
                    RetiredMount(
                        connection=gone.connection,
                        fingerprint=gone.fingerprint,
                        reason=action.cause,
                        retired_at=at(now),
                        in_flight=1,
                    )
                )
            if isinstance(action, Add | Replace):
                message = "The first attempt is under way."
                self.mounts[name] = failing(
                    action.spec, "Connecting", message, since=at(now), attempted=False, last_error=None, next_retry=None
                )

    def set(self, name: str, **members: Any) -> None:
        """Have the mount of ``name`` report this from now on."""
        self.mounts[name] = self.mounts[name].model_copy(update=members)

    def close_all(self) -> None:
        """Every draining mount finishes."""
        self.retired = [each.model_copy(update={"state": "Closed", "in_flight": 0}) for each in self.retired]


class World:
    """Resources, replicas and the statuses written so far."""

    def __init__(self, *, replicas: int, seed: int = 0) -> None:
        self.replicas = [Replica() for _ in range(replicas)]
        self.resources: dict[str, McpConnection] = {}
        self.proxy: McpProxy = proxy()
        self.data: Data = {}
        self.statuses: dict[ConnectionKey, dict[str, Any]] = {}
        self.proxy_body: dict[str, Any] | None = None
        self.log: list[str] = []
        self._shuffle = random.Random(seed) if seed else None  # noqa: S311
        self._fingerprints: dict[str, str] = {}
        self._now = 0.0

    def apply(self, *connections: McpConnection) -> None:
        for each in connections:
            self.resources[each.metadata.name] = each

    def delete(self, name: str) -> None:
        self.statuses.pop(connection_key(self.resources.pop(name)))

    def connect(self, name: str) -> None:
        for replica in self.replicas:
            spec = next(each for each in replica.desired.mounts if each.connection.name == name)
            up = mounted(spec, last_handshake=at(self._now))
            replica.set(name, **{field: getattr(up, field) for field in _LIVE})

    def fail(self, name: str, reason: str, message: str) -> None:
        for replica in self.replicas:
            spec = next(each for each in replica.desired.mounts if each.connection.name == name)
            down = failing(spec, reason, message, next_retry=at(self._now + 5))
            replica.set(name, **{field: getattr(down, field) for field in _LIVE if field != "last_handshake"})

    def step(self, story: str, *, seconds: float = 10) -> None:
        """Reconcile as an operator does, twice: the second time must find nothing to do."""
        self._now += seconds
        self.log += ["", f"{int(self._now):>4} s  {story}"]
        desired = self._desired()
        for spec in desired.mounts:
            self._fingerprints.setdefault(spec.fingerprint, f"F{len(self._fingerprints) + 1}")
        for replica in self.replicas:
            if replica.reachable:
                steps = plan(desired, replica.report())
                if replica is self.replicas[0]:
                    self._log_plan(steps)
                if not steps.is_noop:
                    replica.apply(desired, steps, self._now)
                assert plan(self._desired(), replica.report()).is_noop
        self._write(desired, self._now)
        written = ({**self.statuses}, self.proxy_body)
        self._write(self._desired(), self._now + 7.7)
        assert written == (self.statuses, self.proxy_body), "an idle reconcile must not change any status"
        self._log_statuses()

    def _candidates(self) -> list[Candidate]:
        candidates: list[Candidate] = list(self.resources.values())
        if self._shuffle:
            self._shuffle.shuffle(candidates)
        return candidates

    def _desired(self) -> DesiredMounts:
        return desired_mounts(self.proxy, self._candidates(), self.data, "Cluster")

    def _write(self, desired: DesiredMounts, now: float) -> None:
        reports = [replica.report() for replica in self.replicas]
        seen = Observation(desired, reports, silent=reports.count(None))
        for each in self._candidates():
            key = connection_key(each)
            self.statuses[key] = connection_status_in(seen, each, self.statuses.get(key), at(now))
        self.proxy_body = proxy_status(
            self.proxy, desired, reports, self.statuses, self.proxy_body, at(now), endpoint="http://default.default.svc"
        )

    def _log_plan(self, steps: Plan) -> None:
        for action in steps.actions:
            if isinstance(action, Add | Replace | Retire | Reject):
                self.log.append(
                    f"        {type(action).__name__.lower()} {action.connection}: {self._named(action.reason)}"
                )
        self.log += [f"        {text}" for text in steps.settings]

    def _log_statuses(self) -> None:
        for key in sorted(self.statuses, key=str):
            self._log_status(str(key), self.statuses[key])
        assert self.proxy_body is not None
        self._log_status("McpProxy", self.proxy_body)

    def _log_status(self, name: str, status: dict[str, Any]) -> None:
        self.log.append(f"     {name}")
        for each in status["conditions"]:
            since = each["lastTransitionTime"][14:19]
            line = f"{each['type']}={each['status']} {each['reason']} ({since}): {each['message']}"
            self.log.append(f"        {self._named(line)}")
        if mount := status.get("mount"):
            place = f"under {mount['prefix']!r} on {mount['replicas']} since {mount['since'][14:19]}"
            line = f"mount {mount['fingerprint']} {place}"
            self.log.append(f"        {self._named(line)}")
        for each in status["retiredMounts"]:
            owner = f"{each['connection']['name']} " if name == "McpProxy" else ""
            line = f"retired {owner}{each['fingerprint']} {each['reason']} {each['state']} {each['inFlight']} in flight"
            self.log.append(f"        {self._named(line)}")
        if counts := status.get("connections"):
            self.log.append(f"        {counts['ready']} ready, {counts['mounted']} mounted of {counts['total']}")

    def _named(self, text: str) -> str:
        """Fingerprints by the order in which they turn up: F1, F2, …"""
        for fingerprint, name in self._fingerprints.items():
            text = text.replace(fingerprint, name)
        return text


_LIVE = (
    "ready",
    "attempted",
    "reason",
    "message",
    "phase",
    "server",
    "catalog",
    "last_handshake",
    "last_error",
    "next_retry",
)
