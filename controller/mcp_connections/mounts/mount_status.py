"""The members of a connection's status that describe its mount: what replicas report, joined and bounded."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from mcp_connections.api.connection_status import (
    MAX_ERROR,
    MAX_NAMES,
    MAX_NOTES,
    CatalogNoteStatus,
    CatalogStatus,
    McpConnectionStatus,
    MountStatus,
    ServerStatus,
)
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.report import CatalogNote, CatalogReport, MountReport, ServerReport
from mcp_connections.mounts.spec import ConnectionKey, HttpServer, MountSpec
from mcp_connections.mounts.verdicts import severity

_MAX_TEXT = 1024
_MAX_URL = 2048
_MAX_VERSION = 64


def mount_members(key: ConnectionKey, seen: Observation, previous: McpConnectionStatus) -> dict[str, Any]:
    """``mount``, ``catalog``, ``server``, ``last_handshake``, ``last_error`` and ``next_retry`` of a connection that
    should be mounted; nothing of any other.

    While no replica answers, what was last known of this fingerprint stays: the condition says Unknown, and a blank
    would only hide what to expect.
    """
    spec = seen.specs.get(key)
    if spec is None:
        return {}
    same = previous.mount is not None and previous.mount.fingerprint == spec.fingerprint
    known = previous if same else McpConnectionStatus()
    if not seen.replicas:
        return {**_last_known(known), "mount": _mount(spec, [], known)}
    mounts = seen.mounts(key)
    return {"mount": _mount(spec, mounts, known), **(_reported(mounts, known) if mounts else {})}


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
        transport=spec.server.kind,
        url=_public_url(spec.server.url) if isinstance(spec.server, HttpServer) else None,
    )


def _reported(mounts: list[MountReport], known: McpConnectionStatus) -> dict[str, Any]:
    up = [mount for mount in mounts if mount.ready]
    down = sorted((mount for mount in mounts if not mount.ready), key=severity)
    best = (up or down)[0]
    handshakes = [mount.last_handshake for mount in mounts if mount.last_handshake]
    error = next((mount.last_error for mount in (*down, *up) if mount.last_error), known.last_error)
    return {
        "catalog": _catalog(best.catalog),
        "server": _server(best.server) if best.server else known.server,
        "last_handshake": max(handshakes, default=known.last_handshake),
        "last_error": error[:MAX_ERROR] if error else None,
        "next_retry": min((mount.next_retry for mount in down if mount.next_retry), default=None),
    }


def _catalog(report: CatalogReport) -> CatalogStatus:
    return CatalogStatus(
        tools=report.tools,
        resources=report.resources,
        resource_templates=report.resource_templates,
        prompts=report.prompts,
        hash=report.hash,
        names=tuple(name[:_MAX_TEXT] for name in report.names[:MAX_NAMES]),
        skipped=tuple(map(_note, report.skipped[:MAX_NOTES])),
        notices=tuple(map(_note, report.notices[:MAX_NOTES])),
    )


def _note(note: CatalogNote) -> CatalogNoteStatus:
    return CatalogNoteStatus(kind=note.kind, name=note.name[:_MAX_TEXT], reason=note.reason[:_MAX_TEXT])


def _server(report: ServerReport) -> ServerStatus:
    return ServerStatus(
        name=report.name[:_MAX_TEXT],
        version=report.version[:_MAX_TEXT],
        protocol_version=report.protocol_version[:_MAX_VERSION],
    )


def _public_url(url: str) -> str:
    """Without query and credentials: status is read by more people than the spec needs to be."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()[:_MAX_URL]
