"""What a test wants mounted, in one line."""

from __future__ import annotations

from typing import Any

from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec, StdioServer


def key(name: str) -> ConnectionKey:
    return ConnectionKey(namespace="team", name=name, uid=f"uid-{name}")


def http(name: str, url: str, *, fingerprint: str = "1", prefix: str | None = None, **fields: Any) -> MountSpec:
    """An HTTP connection; its prefix is its name unless given."""
    headers = fields.pop("headers", {})
    return MountSpec(
        connection=key(name),
        fingerprint=fingerprint,
        prefix=name if prefix is None else prefix,
        server=HttpServer(url=url, headers=headers),
        **fields,
    )


def stdio(
    name: str, *command: str, fingerprint: str = "1", env: dict[str, str] | None = None, **fields: Any
) -> MountSpec:
    """A stdio connection."""
    return MountSpec(
        connection=key(name),
        fingerprint=fingerprint,
        prefix=fields.pop("prefix", name),
        server=StdioServer(command=command, env=env or {}),
        **fields,
    )


def desired(*mounts: MountSpec, **settings: Any) -> DesiredMounts:
    """What a proxy should serve, oldest first. Retired mounts get 20 s unless told otherwise."""
    return DesiredMounts(mounts=mounts, **{"drain_timeout": 20.0, **settings})
