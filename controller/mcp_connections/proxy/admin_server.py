"""Listening on the admin port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from mcp_connections.proxy.admin_guard import is_loopback

START_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0
"""Seconds that requests in progress get when the port is closed."""


class AdminPortError(Exception):
    """The admin port cannot be opened. The text says which, why, and what to do."""


class _AdminServer(uvicorn.Server):
    """A uvicorn server that tells when it listens and leaves the process's signals to whoever runs the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as error:
            raise AdminPortError("The admin application did not start. The log above says why.") from error
        self.listening.set()


@contextlib.asynccontextmanager
async def admin_server(app: ASGIApp, *, host: str, port: int, token: str | None) -> AsyncIterator[int]:
    """Serve ``app`` at ``host:port`` while the context is open; gives the port (for ``port`` 0, the one chosen).

    Raises AdminPortError where the port is taken, or where ``host`` is open to other machines and there is no
    ``token``: whoever reaches this port decides what the proxy serves.
    """
    if token is None and not is_loopback(host):
        raise AdminPortError(
            f"The admin port would be open to other machines at {host} without a token. "
            "Give --admin-token-file, or --host 127.0.0.1."
        )
    with _listen(host, port) as listener:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=int(STOP_TIMEOUT)
        )
        server = _AdminServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="admin-port")
        try:
            await _until_listening(server, serving)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            _, unfinished = await asyncio.wait([serving], timeout=STOP_TIMEOUT + 5)
            for task in unfinished:
                task.cancel()


async def _until_listening(server: _AdminServer, serving: asyncio.Task[None]) -> None:
    listening = asyncio.create_task(server.listening.wait())
    await asyncio.wait([listening, serving], timeout=START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if serving.done():
        await serving
    if not server.listening.is_set():
        raise AdminPortError(f"The admin application did not start within {START_TIMEOUT:.0f} s.")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise AdminPortError(
            f"Cannot listen at {host}:{port} for the admin surface: {error.strerror}. Choose another --admin-port."
        ) from error
    listener.setblocking(False)
    return listener
