"""A TCP hop in front of the API server that can fall silent without closing anything, as broken networks do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self


class StallingProxy:
    """Forwards connections to ``port``. After ``stall`` those that exist carry nothing more; new ones work unless they
    are ``held``."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._forwarding: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.stall()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    def stall(self) -> None:
        """Stop forwarding on every connection that exists now, in both directions, and keep it open."""
        for task in self._forwarding:
            task.cancel()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Meanwhile new connections are accepted and carry nothing, until this ends."""
        self._open.clear()
        yield
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._open.wait()
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(onward_writer)
        for source, sink in ((reader, onward_writer), (onward_reader, writer)):
            task = asyncio.create_task(_forward(source, sink))
            self._forwarding.add(task)
            task.add_done_callback(self._forwarding.discard)


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await source.read(65536):
            sink.write(block)
            await sink.drain()
        sink.close()
