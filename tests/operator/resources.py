"""Small resources for tests that need no cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcp_connections.api.parsing import parse_proxy
from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.report import MountReport
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def mcp_proxy(name: str = "default", namespace: str = "team", **spec: Any) -> McpProxy:
    """An McpProxy as the API server would hold it."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "generation": 1}
    manifest = {"apiVersion": "mcp-connections.io/v1alpha1", "kind": "McpProxy", "metadata": metadata, "spec": spec}
    return parse_proxy(manifest)


def mount_spec(name: str, *, fingerprint: str = "f1", **fields: Any) -> MountSpec:
    """A mount of a connection by URL."""
    return MountSpec(
        connection=ConnectionKey(namespace="team", name=name, uid=f"uid-of-{name}"),
        fingerprint=fingerprint,
        prefix=name,
        server=HttpServer(url=f"http://{name}.example/mcp"),
        **fields,
    )


def desired(*names: str, **fields: Any) -> DesiredMounts:
    """Mounts of ``names``."""
    return DesiredMounts(mounts=tuple(mount_spec(name) for name in names), **fields)


def mount_report(spec: MountSpec, *, ready: bool = True) -> MountReport:
    """``spec`` as a registry reports it."""
    return MountReport(
        connection=spec.connection,
        fingerprint=spec.fingerprint,
        prefix=spec.prefix,
        transport=spec.server.kind,
        ready=ready,
        attempted=True,
        reason="Ready" if ready else "Unreachable",
        message="",
        since=SINCE,
    )
