"""One function per condition of an McpProxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.reasons import ConditionType, ProxyReason
from mcp_connections.mounts.acceptance import ProxyRejection
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.plan import plan
from mcp_connections.mounts.spec import ConnectionKey
from mcp_connections.mounts.verdicts import Verdict, counted

Statuses = Mapping[ConnectionKey, Mapping[str, Any]]
"""The status bodies of the proxy's connections."""

_MAX_NAMED = 3


def proxy_accepted(proxy: McpProxy, rejection: ProxyRejection | None) -> Verdict:
    """Accepted: the spec is valid and its references resolve."""
    if rejection:
        return Verdict("False", rejection.reason, rejection.message)
    message = "The spec is valid and its references resolve."
    if proxy.spec.auth is None:
        message += " Clients are not authenticated: set spec.auth, where none: {} says that it is meant so."
    return Verdict("True", ProxyReason.ACCEPTED, message)


def available(proxy: McpProxy, seen: Observation, ready_pods: int, statuses: Statuses) -> Verdict:
    """Available: at least one pod serves; with startPolicy Strict, only while every connection is ready."""
    if ready_pods:
        return Verdict("True", ProxyReason.AVAILABLE, f"{counted(ready_pods, 'pod')} ready.")
    if proxy.spec.replicas == 0:
        return Verdict("False", ProxyReason.SCALED_TO_ZERO, "spec.replicas is 0: nothing serves the endpoint.")
    waiting = [str(key) for key, status in statuses.items() if not is_true(status, ConditionType.READY)]
    if proxy.spec.start_policy == "Strict" and seen.answers and waiting:
        message = f"startPolicy is Strict, and these connections are not ready: {_some(sorted(waiting))}."
        return Verdict("False", ProxyReason.CONNECTIONS_NOT_READY, message)
    if seen.expected:
        message = f"{counted(seen.expected, 'pod')} running, none ready yet."
        return Verdict("False", ProxyReason.UNAVAILABLE, message)
    return Verdict("False", ProxyReason.UNAVAILABLE, "No pod is running. See the Deployment's conditions and events.")


def programmed(seen: Observation, rejection: ProxyRejection | None) -> Verdict:
    """Programmed: every ready pod has the desired mounts."""
    if rejection:
        return Verdict("False", ProxyReason.PENDING, "Nothing is sent to the pods, because the proxy is not accepted.")
    if not seen.expected:
        return Verdict("Unknown", ProxyReason.PENDING, "There is no pod to hold mounts.")
    if not seen.is_complete:
        message = (
            f"{seen.expected - len(seen.answers)} of {counted(seen.expected, 'pod')} did not answer on the admin port: "
            "changes do not get there. See the pods' logs and any NetworkPolicy around them."
        )
        return Verdict("False", ProxyReason.PROXY_UNREACHABLE, message)
    behind = sum(not plan(seen.desired, report).is_noop for report in seen.replicas)
    if behind:
        message = f"{behind} of {counted(len(seen.replicas), 'pod')} do not have the desired mounts yet."
        return Verdict("False", ProxyReason.PENDING, message)
    message = f"{counted(len(seen.desired.mounts), 'mount')} on {counted(len(seen.replicas), 'pod')}."
    return Verdict("True", ProxyReason.PROGRAMMED, message)


def is_true(status: Mapping[str, Any], kind: str) -> bool:
    """Whether a status body has the condition ``kind`` with status True."""
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", ()))


def _some(names: list[str]) -> str:
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
