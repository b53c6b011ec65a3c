"""A child's pipes on the event loop. The child is at liberty not to read, to write without end, or to close any."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO, cast


class PipeEnd:
    """This side's end of a pipe, as the event loops want it: something with a number that can be closed.

    Not a Python file, because uvloop closes the number and then the file too, or leaves that to the garbage
    collector where the pipe ended while it was taken over. By then the number may be another thread's file.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._identity = self._look()

    def fileno(self) -> int:
        """The file descriptor."""
        return self._number

    def close(self) -> None:
        """Close the pipe, unless the event loop did. May be called at any time and more than once."""
        if self._identity is not None and self._look() == self._identity:
            os.close(self._number)
        self._identity = None

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self._number)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def as_file(self) -> IO[bytes]:
        """The type that the event loops declare; they use no more of it than there is."""
        return cast("IO[bytes]", self)


class InputPipe(asyncio.BaseProtocol):
    """The child's stdin. Whole messages are written, in the order of the calls; ``closed`` is done when it is."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()

    async def connect(self, end: PipeEnd) -> None:
        """Take over the pipe."""
        await asyncio.get_running_loop().connect_write_pipe(lambda: self, end.as_file())

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
        if self._transport is not None and not self.closed.done():
            self._transport.close()
        self._writable.set()

    def abort(self) -> None:
        """Close now, whatever is unread."""
        if self._transport is not None and not self.closed.done():
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

    async def connect(self, end: PipeEnd) -> None:
        """Take over the pipe and start reading."""
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, end.as_file())

    def abort(self) -> None:
        """Stop reading."""
        if self._transport is not None and not self.closed.done():
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
