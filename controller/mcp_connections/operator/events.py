"""Kubernetes Events: one for each transition of a condition, never one for each pass."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from mcp_connections.api.model import rfc3339
from mcp_connections.api.reasons import ConditionType, ProxyReason, Reason
from mcp_connections.operator.cluster import EVENT, FIELD_MANAGER, Cluster, ClusterError, Object

log = logging.getLogger(__name__)

REMEMBERED = 1024
"""Events whose repetitions are counted in place."""
MAX_MESSAGE = 1000
"""Characters. The API server takes 1024 bytes."""
_QUIET_REASONS = frozenset({Reason.CONNECTING, Reason.PENDING, Reason.NOT_ACCEPTED})
_INTENDED = frozenset({Reason.DISABLED, Reason.TERMINATING, ProxyReason.SCALED_TO_ZERO})


class Transition(NamedTuple):
    """A change that somebody who looks at the object should learn of."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Transition]:
    """What changed from one status to the next. Conditions that are undecided, or on their way, are not news."""
    old, new = _by_type(before), _by_type(after)
    found = []
    for kind, condition in new.items():
        was = old.get(kind, {})
        if (condition["status"], condition["reason"]) == (was.get("status"), was.get("reason")):
            continue
        if _is_news(kind, condition, was, new):
            good = condition["status"] == "True" or condition["reason"] in _INTENDED
            found.append(Transition("Normal" if good else "Warning", condition["reason"], condition["message"]))
    return found


def _is_news(kind: str, condition: Mapping[str, str], was: Mapping[str, str], new: Mapping[str, Any]) -> bool:
    if condition["status"] == "Unknown" or condition["reason"] in _QUIET_REASONS:
        return False
    if kind == ConditionType.MOUNTED:
        return False
    if kind == ConditionType.ACCEPTED and condition["status"] == "True":
        return was.get("status") == "False"
    # Ready repeats the reason of Accepted, which has its own event.
    return kind == ConditionType.ACCEPTED or condition["reason"] != new.get(ConditionType.ACCEPTED, {}).get("reason")


class Recorder:
    """Writes Events. A failure is logged and nothing else: no pass depends on them."""

    def __init__(self, cluster: Cluster, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._cluster = cluster
        self._now = now
        self._counts: OrderedDict[tuple[str, Transition], tuple[str, int]] = OrderedDict()

    async def record(self, regarding: Object, news: Iterable[Transition]) -> None:
        """Record ``news`` about the object ``regarding``. The same once more raises the count of its Event."""
        for transition in news:
            try:
                await self._record(regarding, transition)
            except ClusterError as error:
                log.warning("Event %s not recorded: %s", transition.reason, error)

    async def _record(self, regarding: Object, transition: Transition) -> None:
        metadata = regarding["metadata"]
        identity = (metadata["uid"], transition)
        name, count = self._counts.pop(identity, ("", 0))
        if name:
            try:
                patch = {"count": count + 1, "lastTimestamp": rfc3339(self._now())}
                await self._cluster.merge(EVENT, metadata["namespace"], name, patch)
            except ClusterError as error:
                if error.status != 404:
                    raise
                name, count = "", 0
        if not name:
            name = f"{metadata['name']}.{uuid.uuid4().hex[:16]}"
            await self._cluster.create(EVENT, _body(regarding, transition, name, rfc3339(self._now())))
        self._counts[identity] = (name, count + 1)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)


def _body(regarding: Object, transition: Transition, name: str, moment: str) -> Object:
    metadata = regarding["metadata"]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": transition.type,
        "reason": transition.reason,
        "message": transition.message[:MAX_MESSAGE] or transition.reason,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _by_type(status: Mapping[str, Any] | None) -> dict[str, Mapping[str, str]]:
    return {condition["type"]: condition for condition in (status or {}).get("conditions") or ()}
