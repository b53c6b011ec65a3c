"""One function per condition of a connection, and the rule of when a transition time moves.

A verdict is a function of what was observed just now, not of former conditions, so that a status cannot talk itself
into anything; the one exception is said where it is made. Messages hold no counters that move while nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mcp_connections.api.meta import Condition
from mcp_connections.api.reasons import ConditionType, Reason
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.report import MountReport
from mcp_connections.mounts.spec import ConnectionKey

Truth = Literal["True", "False", "Unknown"]

_BY_SEVERITY = (
    Reason.CATALOG_CHANGED,
    Reason.UNAUTHORIZED,
    Reason.PROTOCOL_ERROR,
    Reason.COMMAND_NOT_FOUND,
    Reason.EXITED,
    Reason.UNREACHABLE,
    Reason.TIMEOUT,
    Reason.CONNECTING,
)
"""Reasons of Ready=False, what needs its user most first."""


@dataclass(frozen=True)
class Verdict:
    """What a condition says, without its times."""

    status: Truth
    reason: str
    message: str


_NOT_SEEN = Verdict("Unknown", Reason.PENDING, "The operator has not looked at this connection yet.")
_DISABLED = Verdict("False", Reason.DISABLED, "spec.enabled is false.")


_TERMINATING = Verdict(
    "False",
    Reason.TERMINATING,
    "Being deleted, and not served any more. It is gone once those who set its metadata.finalizers removed them.",
)


def terminating(key: ConnectionKey, seen: Observation) -> tuple[tuple[str, Verdict], ...]:
    """All conditions of a connection that is being deleted. Only a finalizer lets anybody see them."""
    mounting = _unmounted(key, seen) if seen.is_leaving(key) else _TERMINATING
    return (
        (ConditionType.READY, _TERMINATING),
        (ConditionType.ACCEPTED, _TERMINATING),
        (ConditionType.MOUNTED, mounting),
    )


def accepted(key: ConnectionKey, seen: Observation) -> Verdict:
    """Accepted: the spec is valid, its references resolve, its names are unambiguous."""
    if rejection := seen.rejected.get(key):
        return Verdict("False", rejection.reason, rejection.message)
    if key in seen.disabled:
        return Verdict("True", Reason.ACCEPTED, "The spec is valid. Its references are checked once it is enabled.")
    if key in seen.specs:
        return Verdict("True", Reason.ACCEPTED, "The spec is valid and its references resolve.")
    return _NOT_SEEN


def mounted(key: ConnectionKey, seen: Observation, *, was_mounted: bool) -> Verdict:
    """Mounted: every ready replica of the proxy has this fingerprint.

    A replica that serves and does not answer is taken to have it only if all had it before (``was_mounted``): one
    missed answer says nothing against what has not changed, and nothing for what has.
    """
    spec = seen.specs.get(key)
    if spec is None:
        return _unmounted(key, seen)
    total = len(seen.replicas)
    if not total:
        return _proxy_unavailable(seen)
    missing = total - len(seen.mounts(key))
    if missing:
        message = (
            f"{missing} of {counted(total, 'replica')} of the proxy do not have fingerprint {spec.fingerprint} yet."
        )
        return Verdict("False", Reason.PENDING, message)
    if seen.silent and not was_mounted:
        message = f"{counted(seen.silent, 'replica')} of the proxy did not answer, and may not have it yet."
        return Verdict("False", Reason.PENDING, message)
    return Verdict("True", Reason.MOUNTED, f"On {counted(total, 'replica')} of the proxy.")


def ready(key: ConnectionKey, seen: Observation, mounting: Verdict) -> Verdict:
    """Ready: a live session and a catalogue in every replica; the summary of the others. ``mounting`` is the verdict
    of ``mounted``."""
    if key in seen.disabled and key not in seen.rejected:
        return _DISABLED
    for verdict in (accepted(key, seen), mounting):
        if verdict.status != "True":
            return verdict
    mounts = seen.mounts(key)
    failed = sorted((mount for mount in mounts if not mount.ready), key=severity)
    if not failed:
        return Verdict("True", Reason.READY, _serving(mounts[0]))
    where = f"In {len(failed)} of {len(mounts)} replicas of the proxy: " if len(mounts) > 1 else ""
    return Verdict("False", failed[0].reason, f"{where}{failed[0].message}{_pod_trouble(key, seen)}")


def _pod_trouble(key: ConnectionKey, seen: Observation) -> str:
    """What keeps the pod of a command from running: the proxy sees no more than that nobody answers."""
    pod = seen.pods.get(key)
    if pod is None or pod.message is None:
        return ""
    return f"; its pod {pod.name or ''}".rstrip() + f": {pod.message}"


def severity(mount: MountReport) -> int:
    """The place of a mount's reason among those of Ready=False: the smaller, the more urgent."""
    return next((place for place, reason in enumerate(_BY_SEVERITY) if reason == mount.reason), len(_BY_SEVERITY))


def conditions(
    verdicts: Iterable[tuple[str, Verdict]], previous: Sequence[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Verdicts as conditions, in their order. A transition time is that of the previous condition of the same type, and
    ``now`` where there is none or its status was another (Kubernetes API conventions, Typical status properties)."""
    before = {condition.type: condition for condition in previous}
    return tuple(
        Condition(
            type=str(kind),
            status=verdict.status,
            observed_generation=generation,
            last_transition_time=(
                before[kind].last_transition_time if kind in before and before[kind].status == verdict.status else now
            ),
            reason=str(verdict.reason),
            message=verdict.message,
        )
        for kind, verdict in verdicts
    )


def counted(number: int, noun: str) -> str:
    """``1 tool``, ``2 tools``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _unmounted(key: ConnectionKey, seen: Observation) -> Verdict:
    if seen.is_leaving(key):
        return Verdict("False", Reason.DRAINING, "Taken out of service; calls in flight may still finish.")
    if key in seen.rejected:
        return Verdict("False", Reason.NOT_ACCEPTED, "Not mounted, because the connection is not accepted.")
    return _DISABLED if key in seen.disabled else _NOT_SEEN


def _proxy_unavailable(seen: Observation) -> Verdict:
    what = (
        f"None of {counted(seen.expected, 'replica')} of the proxy answers" if seen.expected else "The proxy has no pod"
    )
    message = f"{what}. See the conditions of the McpProxy, and its pods."
    return Verdict("Unknown", Reason.PROXY_UNAVAILABLE, message)


def _serving(mount: MountReport) -> str:
    catalog = mount.catalog
    items = (
        counted(catalog.tools, "tool"),
        counted(catalog.resources, "resource"),
        counted(catalog.resource_templates, "resource template"),
        counted(catalog.prompts, "prompt"),
    )
    return f"Serving {', '.join(items)}."
