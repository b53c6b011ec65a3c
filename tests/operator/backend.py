"""A real MCP server that can be taken down, asks for a token if told to, and remembers who came."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Self

import uvicorn
from fastmcp import FastMCP
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Backend:
    """Serves the tools ``echo`` and ``wait`` at ``url``."""

    def __init__(self, *, token: str | None = None, port: int = 0) -> None:
        self.token = token
        self.requests = 0
        self.tokens_seen: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", port))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Start, at the same port as before."""
        if self._socket.fileno() == -1:
            self._socket = socket.create_server(("127.0.0.1", self.port))
            self._socket.setblocking(False)
        app = self._guarded(_mcp().http_app(path="/mcp"))
        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        async with asyncio.timeout(60):
            while not self._server.started:
                await asyncio.sleep(0.01)

    async def down(self) -> None:
        """Stop as a crash does: open connections are cut and new ones refused."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = self._server.force_exit = True
        await asyncio.wait([self._serving], timeout=20)
        self._socket.close()
        self._server = self._serving = None

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.requests += 1
                headers = dict(scope["headers"])
                token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
                self.tokens_seen.append(token)
                if self.token is not None and token != self.token:
                    await PlainTextResponse("who are you?", 401)(scope, receive, send)
                    return
            await app(scope, receive, send)

        return guard


def _mcp() -> FastMCP[None]:
    server: FastMCP[None] = FastMCP("backend of a test")

    @server.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    async def wait(seconds: float) -> str:
        """Take some time."""
        await asyncio.sleep(seconds)
        return "done"

    return server
