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

log = logging.getLogger(__name__)

PARALLEL = 8
"""Statuses written at once, over all proxies."""
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

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._slots = asyncio.Semaphore(PARALLEL)

    async def write(self, updates: Iterable[Update]) -> int:
        """Write those that are not as they should be, and return how many. Raises ClusterError once all were tried."""
        due = [update for update in updates if not is_current(update)]
        outcomes = await asyncio.gather(*(self._write(update) for update in due), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(due)

    async def _write(self, update: Update) -> None:
        live, metadata = update.live, update.live["metadata"]
        kind, _ = _KINDS[live["kind"]]
        body = {
            "apiVersion": live["apiVersion"],
            "kind": live["kind"],
            # The uid keeps the status of an object that was deleted and created again from landing on the new one.
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "status": update.status,
        }
        async with self._slots:
            try:
                written = await self._cluster.apply_status(kind, body)
            except ClusterError as error:
                if error.status not in (404, 409):
                    raise
                log.debug("%s %s/%s is gone: %s", live["kind"], metadata["namespace"], metadata["name"], error)
                return
            before = live.get("status")
            live["status"] = written.get("status")
            await self._recorder.record(live, transitions(before, update.status))


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
