"""A TCP server that answers with the very bytes a test gives it: what no HTTP library would send."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

Script = Callable[["Connection"], Awaitable[None]]


class Connection:
    """One accepted connection. It is closed when its script ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The next request, head and body. Raises IncompleteReadError where the peer has closed."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return head + await self.reader.readexactly(length)

    async def send(self, *chunks: bytes) -> None:
        """Send chunks, each likely to arrive by itself."""
        for chunk in chunks:
            self.writer.write(chunk)
            await self.writer.drain()
            if len(chunks) > 1:
                await asyncio.sleep(0)

    def reset(self) -> None:
        """End the connection at once."""
        self.writer.transport.abort()


class RawServer:
    """Runs a script for each connection."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.port = 0
        self.accepted = 0
        self.open = 0
        """Connections that are open now."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        self.open += 1
        try:
            await self.script(Connection(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the peer has gone, or the test is over
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


@contextlib.asynccontextmanager
async def raw_server(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A RawServer on a free loopback port."""
    server = RawServer(script)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
