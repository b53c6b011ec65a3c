"""The replicas of one proxy: its pods, what their registries report, and pushing to those that lag behind."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from mcp_connections.mounts.plan import plan
from mcp_connections.mounts.report import RegistryReport
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.admin_client import AdminAddress, AdminClient, AdminError, admin_address
from mcp_connections.operator.cluster import Object

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A running pod with an address, ready or not: with startPolicy Strict one may have to be pushed to in order to
    become ready."""

    uid: str
    name: str
    ready: bool
    address: AdminAddress


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a replica said. Either ``report`` or ``error`` is set."""

    replica: Replica
    report: RegistryReport | None = None
    error: str | None = None


def replicas_of(pods: Iterable[Object]) -> list[Replica]:
    """The pods that can be asked, in an order that does not change by itself. Those that terminate only drain."""
    found = []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        address = admin_address(pod)
        if address is None or status.get("phase") != "Running" or metadata.get("deletionTimestamp"):
            continue
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        )
        found.append(Replica(uid=metadata["uid"], name=metadata["name"], ready=ready, address=address))
    return sorted(found, key=lambda replica: replica.name)


class Replicas:
    """Asks and pushes. Remembers what it pushed to whom, for what a registry does not report, such as timeouts."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._pushed: dict[str, tuple[str, str]] = {}

    async def observe(self, replicas: Iterable[Replica], token: str) -> list[Answer]:
        """What every replica reports, asked all at once."""
        return list(await asyncio.gather(*(self._ask(replica, token) for replica in replicas)))

    async def drive(self, replicas: Iterable[Replica], token: str, desired: DesiredMounts) -> list[Answer]:
        """Push ``desired`` to every replica that does not have it, and return what all report then."""
        asked = list(replicas)
        body = desired.model_dump_json(by_alias=True).encode()
        digest = hashlib.sha256(body).hexdigest()
        self._pushed = {uid: pushed for uid, pushed in self._pushed.items() if uid in {each.uid for each in asked}}
        return list(await asyncio.gather(*(self._drive(each, token, desired, body, digest) for each in asked)))

    async def _ask(self, replica: Replica, token: str) -> Answer:
        try:
            return Answer(replica=replica, report=await self._admin.report(replica.address, token))
        except AdminError as error:
            return Answer(replica=replica, error=str(error))

    async def _drive(self, replica: Replica, token: str, desired: DesiredMounts, body: bytes, digest: str) -> Answer:
        answer = await self._ask(replica, token)
        if answer.report is None:
            return answer
        pushed = (answer.report.instance, digest)
        if plan(desired, answer.report).is_noop and self._pushed.get(replica.uid) == pushed:
            return answer
        try:
            result = await self._admin.push(replica.address, token, body)
        except AdminError as error:
            return Answer(replica=replica, error=str(error))
        self._pushed[replica.uid] = pushed
        if result.added or result.replaced or result.retired:
            log.info(
                "Pod %s: %d kept, %d added, %d replaced, %d retired",
                replica.name,
                len(result.kept),
                len(result.added),
                len(result.replaced),
                len(result.retired) - len(result.replaced),
            )
        return await self._ask(replica, token)
