"""A bridge in this process, and the mount of a proxy in front of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mcp_connections.mounts.spec import Access, HttpServer, MountSpec
from mcp_connections.proxy.bridge.endpoint import BridgeEndpoint
from mcp_connections.proxy.bridge.program import Program
from tests.backends.http_server import serving
from tests.proxy.desired import key

TOKEN = "the-token-of-the-bridge"


@contextlib.asynccontextmanager
async def bridged(
    name: str, *command: str, env: Mapping[str, str] | None = None, secrets: tuple[str, ...] = (), **fields: Any
) -> AsyncIterator[MountSpec]:
    """The mount ``name`` of a program behind a bridge that lasts as long as the context."""
    environment = {**os.environ, **(env or {})}
    program = Program(label=f"team/{name}", command=command, environment=environment, secrets=secrets)
    endpoint = BridgeEndpoint(program, Access(method="bearer", bearer_token=TOKEN), bind="127.0.0.1")
    try:
        async with serving(endpoint) as server:
            yield MountSpec(
                connection=key(name),
                fingerprint="1",
                prefix=name,
                server=HttpServer(
                    url=f"{server.origin}/mcp", headers={"Authorization": f"Bearer {TOKEN}"}, bridged=True
                ),
                **fields,
            )
            endpoint.close_streams()
    finally:
        await endpoint.aclose()
