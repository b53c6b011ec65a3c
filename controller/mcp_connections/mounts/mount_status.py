"""The members of a connection's status that describe its mount: what the replicas report, joined."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcp_connections.api.connection_status import (
    CatalogStatus,
    McpConnectionStatus,
    MountStatus,
    PodStatus,
    ServerStatus,
)
from mcp_connections.api.reasons import Reason
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.policies import in_words
from mcp_connections.mounts.report import MountReport
from mcp_connections.mounts.spec import ConnectionKey, HttpServer, MountSpec, StdioServer
from mcp_connections.mounts.verdicts import severity

_NEVER = datetime.min.replace(tzinfo=UTC)
_WORST_FIRST = ("Open", "HalfOpen", "Closed")


def mount_members(key: ConnectionKey, seen: Observation, previous: McpConnectionStatus) -> dict[str, Any]:
    """``mount``, ``pod``, ``catalog``, ``server``, ``circuit_breaker``, ``last_handshake``, ``last_error`` and
    ``next_retry`` of a connection that should be mounted; nothing of any other.

    While no replica answers, what was last known of this fingerprint stays: the condition says Unknown, and a blank
    would only hide what to expect.
    """
    spec = seen.specs.get(key)
    if spec is None:
        return {}
    same = previous.mount is not None and previous.mount.fingerprint == spec.fingerprint
    known = previous if same else McpConnectionStatus()
    pod = seen.pods.get(key)
    if not seen.replicas:
        return {**_last_known(known), "mount": _mount(spec, [], known), "pod": _pod(pod, [], known)}
    mounts = seen.mounts(key)
    return {
        "mount": _mount(spec, mounts, known),
        "pod": _pod(pod, mounts, known),
        **(_reported(mounts, known) if mounts else {}),
    }


def _pod(pod: PodStatus | None, mounts: list[MountReport], known: McpConnectionStatus) -> PodStatus | None:
    if pod is None:
        return None
    # A proxy that was started anew knows of later ends only.
    before = known.pod.command_exits if known.pod else 0
    return pod.model_copy(update={"command_exits": max([before, *(mount.exits for mount in mounts)])})


def _last_known(known: McpConnectionStatus) -> dict[str, Any]:
    return {
        "catalog": known.catalog,
        "server": known.server,
        "last_handshake": known.last_handshake,
        "last_error": known.last_error,
    }


def _mount(spec: MountSpec, mounts: list[MountReport], known: McpConnectionStatus) -> MountStatus:
    since = min((mount.since for mount in mounts), default=known.mount.since if known.mount else None)
    return MountStatus(
        fingerprint=spec.fingerprint,
        since=since,
        replicas=len(mounts),
        prefix=spec.prefix,
        transport=spec.server.transport,
        url=_public_url(spec.server),
        policies=tuple(in_words(spec)),
    )


def _reported(mounts: list[MountReport], known: McpConnectionStatus) -> dict[str, Any]:
    up = [mount for mount in mounts if mount.ready]
    down = sorted((mount for mount in mounts if not mount.ready), key=severity)
    changed = [mount for mount in down if mount.reason == Reason.CATALOG_CHANGED]
    best = (changed or up or down)[0]  # what is to be reviewed is the catalogue that was withheld
    handshakes = [mount.last_handshake for mount in mounts if mount.last_handshake]
    circuits = {mount.policy.circuit for mount in mounts}
    lately = sorted(up, key=lambda mount: mount.last_error_at or _NEVER, reverse=True)
    error = next((mount.last_error for mount in (*down, *lately) if mount.last_error), known.last_error)
    return {
        "catalog": CatalogStatus.model_validate(best.catalog.model_dump()),
        "server": ServerStatus.model_validate(best.server.model_dump()) if best.server else known.server,
        "circuit_breaker": next((state for state in _WORST_FIRST if state in circuits), None),
        "last_handshake": max(handshakes, default=known.last_handshake),
        "last_error": error,
        "next_retry": min((mount.next_retry for mount in down if mount.next_retry), default=None),
    }


def _public_url(server: HttpServer | StdioServer) -> str | None:
    """Without the query, which may hold a key: status is copied to more places than a spec. Credentials and fragments
    are refused in manifests. None for a command, wherever it runs."""
    if isinstance(server, StdioServer) or server.bridged:
        return None
    return server.url.partition("?")[0]
