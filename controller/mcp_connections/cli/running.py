"""One proxy process under a command: its ports opened, its source followed, its end awaited."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_connections.cli import announcements
from mcp_connections.cli.admin_client import read_token
from mcp_connections.cli.announcements import Say
from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.cli.setting_changes import setting_changes
from mcp_connections.mounts.report import ReloadResult
from mcp_connections.mounts.spec import Access, ConnectionKey, DesiredMounts, Rejection
from mcp_connections.proxy.access.host_guard import is_loopback
from mcp_connections.proxy.admin.control import AdminControl, SourceError
from mcp_connections.proxy.process import DRAIN_SECONDS, ProxyProcess
from mcp_connections.proxy.server.listening import PortError, bind


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Where a command listens."""

    host: str
    port: int
    admin_port: int | None
    admin_token_file: Path | None
    allow_unauthenticated: bool = False

    def __post_init__(self) -> None:
        """Raises InputError where a token would guard nothing, or one port is to be two."""
        if self.admin_token_file is not None and self.admin_port is None:
            raise InputError("--admin-token-file belongs to --admin-port: give the port as well, 0 for any free one.")
        if self.admin_port == self.port != 0:
            raise InputError(f"--port and --admin-port are both {self.port}. Give one of them another port.")

    def check_exposure(self, access: Access) -> None:
        """Raises SourceError where strangers could use the endpoint and nobody said that they may."""
        if access.method == "unset" and not is_loopback(self.host) and not self.allow_unauthenticated:
            raise SourceError(
                f"At {self.host} other machines can reach the endpoint, and nothing says who may use it. Set spec.auth "
                "of the McpProxy (none: {} there means everybody), or give --allow-unauthenticated or --host 127.0.0.1."
            )


@contextlib.asynccontextmanager
async def open_ports(
    process: ProxyProcess, control: AdminControl, ports: Ports, say: Say, *, drain_seconds: float = DRAIN_SECONDS
) -> AsyncIterator[None]:
    """Serve clients, and the administrator where there is an admin port, while the context is open.

    Raises CommandError where a port cannot be had.
    """
    token = read_token(ports.admin_token_file)
    try:
        async with contextlib.AsyncExitStack() as stack:
            listener = bind(ports.host, ports.port, "--port")
            await stack.enter_async_context(process.serve(listener, drain_seconds=drain_seconds))
            served = [f"endpoint  {shown_url(ports.host, listener.getsockname()[1])}/mcp"]
            if ports.admin_port is not None:
                served.append(await stack.enter_async_context(_admin(process, control, ports, token)))
            for line in served:  # only now, as without its admin port the process does not serve
                say(line)
            yield
    except PortError as error:
        raise CommandError(f"{error}.") from error


@contextlib.asynccontextmanager
async def _admin(process: ProxyProcess, control: AdminControl, ports: Ports, token: str | None) -> AsyncIterator[str]:
    # FastMCP takes half a second to import: only a process with an admin port pays for it.
    from mcp_connections.proxy.admin.app import admin_app
    from mcp_connections.proxy.admin.server import admin_server

    app = admin_app(control, process.metrics, token)
    async with admin_server(app, host=ports.host, port=ports.admin_port or 0, token=token) as port:
        guard = "bearer token" if token else "no token, this machine only"
        yield f"admin     {shown_url(ports.host, port)}/admin/mcp  ({guard})"


class Reporter:
    """Tells what reloads did, and which connections came up later. Why one is down is logged where it is noticed."""

    def __init__(self, process: ProxyProcess, say: Say) -> None:
        self._registry = process.registry
        self._say = say
        self._first = True
        self._settings = DesiredMounts()
        self._rejected: tuple[Rejection, ...] = ()
        self._ready: set[ConnectionKey] = set()
        """Connections that were said to be ready."""
        self._registry.listen("handshake", lambda _: self._tell_news())

    def applied(self, result: ReloadResult, desired: DesiredMounts) -> None:
        """After the first reload everything that is mounted, after any other what changed."""
        report = self._registry.report()
        if self._first:
            self._tell(announcements.mounted(report))
        else:
            lines = [f"  settings  {change}" for change in setting_changes(self._settings, desired)]
            lines += announcements.reloaded(result, report, rejected_before=self._rejected)
            self._tell(["reloaded:", *lines] if lines else [])
        self._first = False
        self._settings = desired
        self._rejected = report.rejected
        self._ready = {mount.connection for mount in report.mounts if mount.ready}

    def _tell_news(self) -> None:
        if self._first:
            return
        ready = [mount for mount in self._registry.report().mounts if mount.ready]
        self._tell([announcements.mount_line(mount) for mount in ready if mount.connection not in self._ready])
        self._ready = {mount.connection for mount in ready}

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            self._say(line)


def stop_signal() -> asyncio.Event:
    """An event that SIGTERM, SIGINT and SIGHUP set. To be asked for before anything is started that has to be taken
    down: a closed terminal takes no child down by itself, as each has a session of its own."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
        signals.append(signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    return stop


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Carry on with ``work`` until ``stop`` is set. Raises what it raises."""
    tasks = [asyncio.create_task(work), asyncio.create_task(stop.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        await task


def shown_url(host: str, port: int) -> str:
    """Where this machine finds what listens there."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"
