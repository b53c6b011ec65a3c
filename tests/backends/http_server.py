"""ASGI applications on loopback ports of the test's own event loop, stopped at once and without grace.

A server can be stopped and started again on the same port, and its sockets dropped: what outages are made of.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState


def free_socket() -> socket.socket:
    """A socket bound to a free loopback port, which nobody else gets while it is open."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


class HttpServer:
    """Serves an application. Between ``stop`` and ``start`` its port refuses connections."""

    def __init__(self, app: ASGIApp) -> None:
        self._config = uvicorn.Config(
            app, http="httptools", ws="none", log_config=None, access_log=False, lifespan="off"
        )
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.accepted = 0
        """Connections accepted so far."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._state.connections)

    async def start(self) -> None:
        """Listen; the second time on the same port again."""
        listener = free_socket() if self.port == 0 else self._again()
        self._server = await asyncio.get_running_loop().create_server(self._accept, sock=listener)
        self.port = listener.getsockname()[1]

    def _again(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        return listener

    def _accept(self) -> asyncio.Protocol:
        self.accepted += 1
        protocol = cast("Any", self._config.http_protocol_class)
        return cast("asyncio.Protocol", protocol(config=self._config, server_state=self._state, app_state={}))

    def drop_connections(self, client: tuple[str, int] | None = None) -> None:
        """Abort every connection, or the one from ``client`` (the address in the ASGI scope)."""
        for connection in tuple(self._state.connections):
            protocol = cast("Any", connection)
            if client is None or tuple(protocol.client) == tuple(client):
                protocol.transport.abort()

    async def stop(self) -> None:
        """Refuse connections, drop the open ones and end what they were served by."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop_connections()
        if tasks := tuple(self._state.tasks):
            _, hung = await asyncio.wait(tasks, timeout=0.1)
            for task in hung:
                task.cancel()
            await asyncio.wait(tasks, timeout=10)


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[HttpServer]:
    """``app`` on a free port."""
    server = HttpServer(app)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
