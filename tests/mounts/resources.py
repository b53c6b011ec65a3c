"""Resources, data and reports for the tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.parsing import parse_connection, parse_proxy
from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.report import CatalogReport, MountReport, RegistryReport, RetiredMount, ServerReport
from mcp_connections.mounts.spec import ConnectionKey, MountSpec

START = datetime(2026, 1, 1, tzinfo=UTC)
HTTP = {"http": {"url": "http://127.0.0.1:9001/mcp"}}

Data = dict[tuple[str, str, str], dict[str, bytes]]


def at(seconds: float) -> datetime:
    """A moment, that many seconds after the start."""
    return START + timedelta(seconds=seconds)


def key(name: str, uid: str = "") -> ConnectionKey:
    return ConnectionKey(name=name, uid=uid or f"uid-{name}")


def connection(
    name: str, *, age: float = 0, uid: str = "", generation: int = 1, deleted: bool = False, **spec: Any
) -> McpConnection:
    """A connection created ``age`` seconds after the start."""
    metadata = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "generation": generation,
        "creationTimestamp": at(age).isoformat(),
    }
    if deleted:
        metadata["deletionTimestamp"] = at(age + 1).isoformat()
    return parse_connection(
        {
            "apiVersion": "mcp-connections.io/v1alpha1",
            "kind": "McpConnection",
            "metadata": metadata,
            "spec": {"transport": HTTP, **spec},
        }
    )


def proxy(**spec: Any) -> McpProxy:
    return parse_proxy(
        {
            "apiVersion": "mcp-connections.io/v1alpha1",
            "kind": "McpProxy",
            "metadata": {"name": "default", "uid": "uid-proxy", "generation": 1},
            "spec": spec,
        }
    )


def secret(name: str, **values: bytes) -> Data:
    return {("Secret", "default", name): dict(values)}


def report(*mounts: MountReport, retired: tuple[RetiredMount, ...] = (), **members: Any) -> RegistryReport:
    return RegistryReport(
        **{"instance": "i", "ready": True, "separator": "_", "mounts": mounts, "retired": retired, **members}
    )


def mounted(spec: MountSpec, **members: Any) -> MountReport:
    """What a registry says of a mount that is up."""
    return MountReport(
        **{
            "connection": spec.connection,
            "fingerprint": spec.fingerprint,
            "prefix": spec.prefix,
            "transport": spec.server.kind,
            "ready": True,
            "attempted": True,
            "reason": "Ready",
            "message": "",
            "since": at(10.5),
            "server": ServerReport(name="sample", version="1", protocol_version="2025-11-25"),
            "catalog": CatalogReport(tools=2, prompts=1, hash="h", names=("a", "b")),
            "last_handshake": at(11.5),
            **members,
        }
    )


def failing(spec: MountSpec, reason: str, message: str = "It does not work.", **members: Any) -> MountReport:
    """What a registry says of a mount that is not up."""
    return mounted(
        spec,
        **{
            "ready": False,
            "reason": reason,
            "message": message,
            "phase": "Connect",
            "server": None,
            "catalog": CatalogReport(),
            "last_handshake": None,
            "last_error": message,
            "next_retry": at(20),
            **members,
        },
    )


def conditions_of(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def messages_of(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["message"] for each in status["conditions"]}


def transitions_of(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
