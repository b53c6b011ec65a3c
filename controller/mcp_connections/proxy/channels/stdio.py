"""stdio: a child process that reads and writes one message a line (MCP 2025-11-25, basic/transports, "stdio").

Children are not trusted to keep to that: they print banners, never read, never end, die in the middle of a call. Each
of these concerns this one connection only.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from typing import Final

from mcp_connections.mounts.spec import StdioServer
from mcp_connections.proxy.channels.channel import ChannelError, Exited, TimedOut, Unreachable
from mcp_connections.proxy.channels.child_pipes import InputPipe, OutputPipe
from mcp_connections.proxy.channels.child_process import ChildProcess, spawn
from mcp_connections.proxy.channels.duplex import MESSAGE_LIMIT, WRITE_SECONDS, DuplexChannel
from mcp_connections.proxy.channels.line_splitter import LineSplitter, OversizedLine
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.stderr_tail import ENDS_WITH, StderrTail

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.4
"""The ends of a child's pipes and its exit arrive one by one; so much later none is still on its way."""


class StdioChannel(DuplexChannel):
    """One MCP session with one child process, which is started by ``open`` and gone after ``aclose``."""

    write_seconds = WRITE_SECONDS

    def __init__(
        self,
        server: StdioServer,
        *,
        connection: str,
        connect_timeout: float,
        message_limit: int = MESSAGE_LIMIT,
        secrets: Iterable[str] | None = None,
        on_exit: Callable[[ChannelError], None] = lambda error: None,
    ) -> None:
        """``secrets`` are kept out of what is quoted of the child; None: all values of ``server.env``. ``on_exit`` is
        told of a child that is gone by itself, before anybody else is."""
        redactor = Redactor(server.env.values() if secrets is None else secrets)
        super().__init__(
            connection=connection,
            # Arguments may hold credentials.
            place=f"command {server.command[0]!r}" if server.command else "command",
            connect_timeout=connect_timeout,
            message_limit=message_limit,
            redactor=redactor,
        )
        self._server = server
        self._on_exit = on_exit
        self._child: ChildProcess | None = None
        self._stdin: InputPipe | None = None
        self._stdout: OutputPipe | None = None
        self._stderr: OutputPipe | None = None
        self._lines = LineSplitter(message_limit)
        self._stderr_tail = StderrTail(redactor)
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the child, which is also that of its process group; None before it is started."""
        return None if self._child is None else self._child.pid

    @property
    def stderr_tail(self) -> str:
        """The last 20 lines, at most 4096 characters, that the child wrote to stderr."""
        return self._stderr_tail.text()

    async def _connect(self) -> None:
        child = self._child = spawn(self._server, self._where)
        log.debug("%s: started as pid %d", self._where, child.pid)
        self._stdin = InputPipe()
        self._stdout = OutputPipe(self._take_stdout)
        self._stderr = OutputPipe(self._take_stderr)
        await self._stdin.connect(child.stdin)
        await self._stdout.connect(child.stdout)
        await self._stderr.connect(child.stderr)
        self._supervisor = self._in_background(self._supervise(child, self._stdin, self._stdout, self._stderr))

    async def _transmit(self, body: bytes) -> None:
        assert self._stdin is not None
        assert self._supervisor is not None
        # A line break in JSON is white space between tokens; here it would end the message.
        if b"\n" in body or b"\r" in body:
            body = body.replace(b"\n", b" ").replace(b"\r", b" ")
        try:
            async with asyncio.timeout(self.write_seconds):
                written = await self._stdin.write(body + b"\n")
        except TimeoutError:
            raise TimedOut(
                f"{self._where}: does not read its stdin; the message was not sent within {self.write_seconds:g} s",
                executed=False,
            ) from None
        if not written:
            # The child is ending: its exit code and stderr say more than the closed pipe.
            await asyncio.wait({self._supervisor}, timeout=2 * SETTLE_SECONDS)
            self._refuse_if_over()
            raise Unreachable(f"{self._where}: closed its stdin", executed=False)

    def _take_stdout(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._take_line(line)

    def _take_line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            self.receive_oversized(line.head, line.tail, line.size)
        else:
            self.receive(line)

    def _take_stderr(self, data: bytes) -> None:
        self._stderr_tail.feed(data)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: stderr: %s", self._where, self.redactor.clean(data).rstrip())

    async def _supervise(self, child: ChildProcess, stdin: InputPipe, stdout: OutputPipe, stderr: OutputPipe) -> None:
        await asyncio.wait({child.exited, stdin.closed, stdout.closed}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({child.exited}, timeout=SETTLE_SECONDS)
        # What the child wrote last may be unread, and a grandchild may hold the pipes open.
        if child.exited.done():
            await asyncio.wait({stdout.closed, stderr.closed}, timeout=SETTLE_SECONDS)
        for line in self._lines.end():
            self._take_line(line)
        error = self._end_of(child, stdout)
        self._on_exit(error)
        self.lose(error)

    def _end_of(self, child: ChildProcess, stdout: OutputPipe) -> ChannelError:
        tail = self.stderr_tail
        stderr = f"{ENDS_WITH}{tail}" if tail else "; it wrote nothing to stderr"
        code = child.returncode
        if code is None:
            pipe = "stdout" if stdout.closed.done() else "stdin"
            return Unreachable(f"{self._where}: closed its {pipe} without ending", quoted=stderr)
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}{_CODES.get(code, '')}"
        return Exited(f"{self._where}: {how}", quoted=stderr)

    async def _disconnect(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
        child = self._child
        if child is None:
            return
        if self._stdin is not None:
            self._stdin.close()
        try:
            await child.end()
        finally:
            for pipe in (self._stdin, self._stdout, self._stderr):
                if pipe is not None:
                    pipe.abort()
            await asyncio.sleep(0)  # transports close their files on the next turn of the loop
            for end in (child.stdin, child.stdout, child.stderr):
                end.close()


_CODES: Final = {126: " (a command that cannot be executed)", 127: " (a command that was not found)"}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
