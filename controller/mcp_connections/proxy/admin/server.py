"""Listening on the admin port, and never where strangers reach it without a token."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.types import ASGIApp

from mcp_connections.proxy.access.host_guard import is_loopback
from mcp_connections.proxy.server.listening import PortError, bind, serving

DRAIN_SECONDS: Final = 5.0
"""What requests in progress get when the port is closed."""


@contextlib.asynccontextmanager
async def admin_server(app: ASGIApp, *, host: str, port: int, token: str | None) -> AsyncIterator[int]:
    """Serve ``app`` at ``host:port`` while the context is open; gives the port (for ``port`` 0, the one chosen).

    Raises PortError where the port is taken, or where ``host`` is open to other machines and there is no ``token``:
    whoever reaches this port decides what the proxy serves.
    """
    if token is None and not is_loopback(host):
        raise PortError(
            f"the admin port would be open to other machines at {host} without a token; give --admin-token-file, "
            "or --host 127.0.0.1"
        )
    listener = bind(host, port, "--admin-port")
    async with serving(app, listener, lifespan=True, drain_seconds=DRAIN_SECONDS):
        yield listener.getsockname()[1]
