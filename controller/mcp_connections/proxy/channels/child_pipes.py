"""A child's pipes on the event loop. The child is at liberty not to read, to write without end, or to close any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import IO, cast


class InputPipe(asyncio.BaseProtocol):
    """The child's stdin. Whole messages are written, in the order of the calls; ``closed`` is done when it is."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()

    async def connect(self, file: IO[bytes]) -> None:
        """Take over the pipe."""
        await asyncio.get_running_loop().connect_write_pipe(lambda: self, file)

    @property
    def connected(self) -> bool:
        """Whether the pipe was taken over."""
        return self._transport is not None

    async def write(self, message: bytes) -> bool:
        """Write as soon as the pipe takes it. False where it is closed; nothing was written then, nor is it if the
        call is cancelled. The caller bounds the time."""
        async with self._turn:
            await self._writable.wait()
            if self._transport is None or self._transport.is_closing():
                return False
            self._transport.write(message)
            return True

    def close(self) -> None:
        """Let the child see the end of its input, once it has read what was written."""
        if self._transport is not None:
            self._transport.close()
        self._writable.set()

    def abort(self) -> None:
        """Close now, whatever is unread."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are no subclasses

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        if not self.closed.done():
            self.closed.set_result(None)


class OutputPipe(asyncio.Protocol):
    """The child's stdout or stderr, handed over as it comes; ``closed`` is done at its end."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._take = take
        self._transport: asyncio.ReadTransport | None = None

    async def connect(self, file: IO[bytes]) -> None:
        """Take over the pipe and start reading."""
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, file)

    @property
    def connected(self) -> bool:
        """Whether the pipe was taken over."""
        return self._transport is not None

    def abort(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
