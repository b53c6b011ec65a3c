"""A backend's child process and everything it starts: one session, one process group, one end.

The group outlives its leader: ``npx``, ``uvx`` and shell wrappers leave the real server behind when they die. So it
is the group that is ended, and only an empty group counts as gone.

A proxy that is killed with SIGKILL cannot do that. What remains then is that the child reads the end of its stdin,
which the specification tells it to end at. PR_SET_PDEATHSIG would need code between fork and exec, which can
deadlock in a process with threads, and would not reach grandchildren.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcp_connections.mounts.spec import StdioServer
from mcp_connections.proxy.channels.channel import ChannelError, CommandNotFound, Unreachable
from mcp_connections.proxy.channels.child_pipes import PipeEnd

log = logging.getLogger(__name__)

INHERITED: Final = frozenset(
    (
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SystemRoot",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
    )
)
"""Variables of the proxy that a child sees, besides LC_*. All others may hold secrets."""

EOF_SECONDS: Final = 2.0
"""What a child is given to end by itself after the end of its stdin, and then again after SIGTERM."""
KILL_SECONDS: Final = 5.0
"""How long the kernel may take to end a group after SIGKILL; only uninterruptible I/O needs more than moments."""

_FIRST_LOOK: Final = 0.005
_LOOK_INTERVAL: Final = 0.1

_running: dict[int, int] = {}
"""Process groups that are not known to be gone, and the process that started each."""


class ChildProcess:
    """A started child. Belongs to the event loop that started it.

    ``exited`` is done when the leader has ended and was reaped.
    """

    def __init__(self, process: subprocess.Popen[bytes], stdin: PipeEnd, stdout: PipeEnd, stderr: PipeEnd) -> None:
        self.pid = process.pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._process = process
        self._pidfd: int | None = None
        self._poller: asyncio.Task[None] | None = None
        _running[self.pid] = os.getpid()
        self._watch()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the leader."""
        return self._process.returncode

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or forbidden by a sandbox
            self._poller = asyncio.create_task(self._poll(), name=f"wait for pid {self.pid}")
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    async def _poll(self) -> None:
        while not self._reap():
            await asyncio.sleep(_LOOK_INTERVAL)

    def _reap(self) -> bool:
        if self._process.poll() is None:
            return False
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if not self.exited.done():
            self.exited.set_result(None)
        return True

    async def end(self) -> None:
        """End the group: time to react to the end of stdin, SIGTERM, time again, SIGKILL.

        The caller has closed stdin. Returns once no process of the group is left. A leader that is dead already
        leaves the others no time but what SIGTERM gives. If cancelled, the group is killed at once.
        """
        try:
            await asyncio.wait({self.exited}, timeout=EOF_SECONDS)
            for number, seconds in ((signal.SIGTERM, EOF_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
                if not self._group_left():
                    break
                self._signal(number)
                if await self._gone_within(seconds):
                    break
            else:
                log.error("process group %d is still there %g s after SIGKILL", self.pid, KILL_SECONDS)
        finally:
            self._finish()

    async def _gone_within(self, seconds: float) -> bool:
        pause = _FIRST_LOOK
        for_sure_after = 0.25
        waited = 0.0
        while waited < seconds:
            if not self._group_left():
                return True
            if waited > for_sure_after:
                if await asyncio.to_thread(_only_zombies, self.pid):
                    return True
                for_sure_after = waited * 2
            await asyncio.sleep(pause)
            waited += pause
            pause = min(pause * 2, _LOOK_INTERVAL)
        return not self._group_left()

    def _group_left(self) -> bool:
        if not self._reap():
            return True
        # Where the proxy is PID 1 of a container, orphans of the group become its children and wait to be reaped.
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        return self._signal(0)

    def _signal(self, number: int) -> bool:
        """Signal the group. False where no process of it exists.

        The number of a group is not given to another process as long as the group has a member, reaped leader or
        not, and the group is not signalled again once it was found empty.
        """
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # a member has changed its user
            log.warning("process group %d may not be signalled", self.pid)
        return True

    def _finish(self) -> None:
        if self._group_left():
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
            self._reap()
        if self._poller is not None:
            self._poller.cancel()
        _running.pop(self.pid, None)


def spawn(server: StdioServer, where: str) -> ChildProcess:
    """Start the command in a session of its own. Raises ChannelError; ``where`` begins its text.

    Runs on the event loop: CPython holds its lock between vfork and exec (a millisecond) on any thread.
    """
    if not server.command:
        raise CommandNotFound(f"{where}: the command is empty; set transport.stdio.command", executed=False)
    environment = child_environment(server.env)
    try:
        with ExitStack() as ours, ExitStack() as theirs:
            stdin = _pipe(ours, theirs, child_reads=True)
            stdout = _pipe(ours, theirs, child_reads=False)
            stderr = _pipe(ours, theirs, child_reads=False)
            process = subprocess.Popen(
                server.command,
                stdin=stdin.child,
                stdout=stdout.child,
                stderr=stderr.child,
                cwd=server.working_dir,
                env=environment,
                start_new_session=True,
            )
            ours.pop_all()
    except (OSError, ValueError) as error:
        raise _not_started(server, environment, where, error) from None
    return ChildProcess(process, stdin.own, stdout.own, stderr.own)


class _Pipe(NamedTuple):
    own: PipeEnd
    child: int


def _pipe(ours: ExitStack, theirs: ExitStack, *, child_reads: bool) -> _Pipe:
    read, write = os.pipe()
    own, child = (write, read) if child_reads else (read, write)
    pipe = _Pipe(PipeEnd(own), child)
    ours.callback(pipe.own.close)
    theirs.callback(os.close, child)
    return pipe


def child_environment(configured: Mapping[str, str], inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a child: the harmless part of the proxy's, and what the connection configures."""
    kept = {name: value for name, value in inherited.items() if name in INHERITED or name.startswith("LC_")}
    return kept | dict(configured)


def _not_started(server: StdioServer, environment: Mapping[str, str], where: str, error: Exception) -> ChannelError:
    command = server.command[0]
    if server.working_dir is not None and not Path(server.working_dir).is_dir():
        text = f"the working directory {server.working_dir!r} does not exist; check transport.stdio.workingDir"
    elif isinstance(error, FileNotFoundError) and "/" not in command:
        path = environment.get("PATH", os.defpath)
        text = f"command {command!r} not found in the PATH of the child ({path}); install it, or give its full path"
    elif isinstance(error, FileNotFoundError):
        text = f"command {command!r} does not exist, or the interpreter its first line names does not"
    elif isinstance(error, PermissionError):
        text = f"command {command!r} is not executable; check its mode and that it is a file"
    elif isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return Unreachable(f"{where}: no process can be started now: {error.strerror}", executed=False)
    else:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        text = f"command {command!r} cannot be started: {reason}; check command and env"
    return CommandNotFound(f"{where}: {text}", executed=False)


def _only_zombies(group: int) -> bool:
    """Whether the group has no living member: a zombie whose parent never reaps it cannot be ended any further."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in (b"Z", b"X"):
            return False
    return Path("/proc/self/stat").exists()


@atexit.register
def _kill_what_is_left() -> None:
    """A proxy that exits without closing its channels leaves no child behind."""
    for group, starter in _running.items():
        if starter == os.getpid():  # not in a forked child
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
