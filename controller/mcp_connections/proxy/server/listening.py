"""Serving an ASGI application on a socket, inside a process that has other things to do.

uvicorn parses and writes HTTP (httptools); sockets, signals and the order of shutting down are the process's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from mcp_connections.proxy.server.bounded_http import BoundedHttpProtocol

START_SECONDS: Final = 10.0
BACKLOG: Final = 2048
KEEP_ALIVE_SECONDS: Final = 75
"""Longer than the idle time of common clients and load balancers (60 s), so that it is they who close first."""


class PortError(Exception):
    """A port cannot be served. The text says which, why, and what to do."""


class _Server(uvicorn.Server):
    """Tells when it listens, and leaves the process's signals to whoever runs the process."""

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
            raise PortError("the application did not start; the log above says why") from error
        self.listening.set()


def bind(host: str, port: int, option: str) -> socket.socket:
    """A listening socket; ``port`` 0 takes a free one. ``option`` is what the user changes if the port cannot be had;
    where it is the address that cannot, that is ``--host``.

    Raises PortError.
    """
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(address[0], socket.SOCK_STREAM)
    except OSError as error:
        raise PortError(f"cannot listen at {host}:{port}: {error.strerror or error}; check --host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address[4])
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        advice = f"choose another {option}"
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            advice = "give --host an address of this machine, such as 127.0.0.1"
        raise PortError(f"cannot listen at {host}:{port}: {cause}; {advice}") from error
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, listener: socket.socket, *, lifespan: bool, drain_seconds: float
) -> AsyncIterator[None]:
    """Serve ``app`` on ``listener`` while the context is open, then let requests in progress end within
    ``drain_seconds``. The socket is closed with it. Raises PortError where the application does not start."""
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on" if lifespan else "off",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
    )
    server = _Server(config)
    with listener:
        task = asyncio.create_task(server.serve(sockets=[listener]), name=f"serve {listener.getsockname()}")
        try:
            await _until_listening(server, task)
            yield
        finally:
            server.should_exit = True
            _, unfinished = await asyncio.wait([task], timeout=drain_seconds + 5)
            for late in unfinished:
                late.cancel()


async def _until_listening(server: _Server, task: asyncio.Task[None]) -> None:
    listening = asyncio.create_task(server.listening.wait())
    await asyncio.wait([listening, task], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if task.done():
        await task
    if not server.listening.is_set():
        raise PortError(f"the application did not start within {START_SECONDS:g} s")
