"""Writes statuses that differ from what the API server has, and records what changed in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from mcp_connections.api.connection_status import McpConnectionStatus
from mcp_connections.api.proxy import McpProxyStatus
from mcp_connections.operator.cluster import CONNECTION, PROXY, Cluster, ClusterError, Kind, Object
from mcp_connections.operator.events import Recorder, transitions
from mcp_connections.operator.served_schema import ServedSchemas

log = logging.getLogger(__name__)

PARALLEL = 8
"""Statuses written at once, over all proxies."""
ATTEMPTS = 8
"""Times a status is written anew because its object changed between reading and writing."""
_KINDS: dict[str, tuple[Kind, type[BaseModel]]] = {
    CONNECTION.kind: (CONNECTION, McpConnectionStatus),
    PROXY.kind: (PROXY, McpProxyStatus),
}


@dataclass(frozen=True, kw_only=True)
class Update:
    """The status that an object should have. ``live`` is the object as it was last seen, and is brought up to date."""

    live: Object
    status: Mapping[str, Any]


class StatusWriter:
    """The one writer of statuses."""

    def __init__(self, cluster: Cluster, recorder: Recorder, schemas: ServedSchemas | None = None) -> None:
        """``schemas``: what the cluster's definitions know; anything without."""
        self._cluster = cluster
        self._schemas = schemas
        self._recorder = recorder
        self._slots = asyncio.Semaphore(PARALLEL)

    @property
    def schema_version(self) -> str:
        """Another one means that the same statuses may be written differently."""
        return self._schemas.version if self._schemas is not None else ""

    async def write(self, updates: Iterable[Update]) -> int:
        """Write those that are not as they should be, and return how many. Raises ClusterError once all were tried."""
        due = [update for update in map(self._known, updates) if not is_current(update)]
        outcomes = await asyncio.gather(*(self._write(update) for update in due), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(due)

    def _known(self, update: Update) -> Update:
        if self._schemas is None:
            return update
        return Update(live=update.live, status=self._schemas.known(update.live["kind"], update.status))

    async def _write(self, update: Update) -> None:
        async with self._slots:
            before = update.live.get("status")
            if await self._apply(update):
                await self._recorder.record(update.live, transitions(before, update.status))

    async def _apply(self, update: Update) -> bool:
        """Whether the object was still there. Brings ``update.live`` up to date."""
        live, metadata = update.live, update.live["metadata"]
        kind, _ = _KINDS[live["kind"]]
        for _ in range(ATTEMPTS):
            try:
                written = await self._cluster.apply_status(kind, _body(update))
            except ClusterError as error:
                if error.status not in (404, 409):
                    raise
            else:
                live["status"] = written.get("status")
                metadata["resourceVersion"] = written["metadata"]["resourceVersion"]
                return True
            now = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
            if now is None or now["metadata"]["uid"] != metadata["uid"]:
                log.debug("%s %s/%s is gone", live["kind"], metadata["namespace"], metadata["name"])
                return False
            metadata["resourceVersion"] = now["metadata"]["resourceVersion"]
        raise ClusterError(
            f"The status of {live['kind']} {metadata['namespace']}/{metadata['name']} was not written: the object "
            f"changed {ATTEMPTS} times meanwhile",
            409,
        )


def _body(update: Update) -> Object:
    live, metadata = update.live, update.live["metadata"]
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        # Apply would write the status of an object that was deleted and created again into the new one. The version
        # tells them apart; a mere change of something else is found out and met with another attempt.
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": update.status,
    }


def is_current(update: Update) -> bool:
    """Whether the live status says all of this already, and nothing of ours besides. What others added is theirs."""
    _, model = _KINDS[update.live["kind"]]
    members = {field.alias or name for name, field in model.model_fields.items()}
    live = {name: value for name, value in (update.live.get("status") or {}).items() if name in members}
    types = {condition["type"] for condition in update.status.get("conditions", ())}
    if "conditions" in live:
        live["conditions"] = [condition for condition in live["conditions"] if condition["type"] in types]
    return _ordered(live) == _ordered(update.status)


def _ordered(status: Mapping[str, Any]) -> dict[str, Any]:
    """Others' conditions may stand between ours: their order is not ours to restore."""
    return dict(status) | {"conditions": sorted(status.get("conditions") or (), key=lambda each: str(each["type"]))}
