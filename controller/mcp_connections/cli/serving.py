"""The process behind ``serve``: it follows a folder, and can be asked and told things through its admin port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

from mcp_connections.cli.announcements import Say
from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.cli.manifests import Overrides, desired, read_desired
from mcp_connections.cli.running import Ports, Reporter, open_ports, run_until, stop_signal
from mcp_connections.folder.errors import FileError
from mcp_connections.folder.reader import Folder, FolderState
from mcp_connections.folder.watcher import watch_folder
from mcp_connections.mounts.plan import Plan, plan
from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.proxy.admin.control import HealthReport, SourceError
from mcp_connections.proxy.process import ProxyProcess

KEPT = "What these files last held while they were valid is still served."
LEFT_OUT = "These files are left out until they are valid."


class FolderControl:
    """The AdminControl of a process that serves a folder."""

    def __init__(self, process: ProxyProcess, folder: Path, overrides: Overrides, ports: Ports, say: Say) -> None:
        self._process = process
        self._folder = folder
        self._overrides = overrides
        self._ports = ports
        self._reporter = Reporter(process, say)
        self._say = say
        self._errors: tuple[FileError, ...] = ()
        self._starting = True

    def report(self) -> RegistryReport:
        return self._process.registry.report()

    async def apply(self, desired: DesiredMounts) -> ReloadResult:
        self._ports.check_exposure(desired.access)
        result = await self._process.registry.apply(desired)
        self._reporter.applied(result, desired)
        return result

    async def check_health(self) -> tuple[HealthReport, ...]:
        return await self._process.check_health()

    async def reload(self) -> ReloadResult:
        return await self.apply(await self._read())

    async def plan(self) -> Plan:
        return plan(await self._read(), self.report())

    async def changed(self, state: FolderState) -> None:
        """Put a new state of the folder into effect, or say why it is not."""
        self._tell_errors(state.errors)
        try:
            await self.apply(await asyncio.to_thread(desired, state, self._overrides))
        except SourceError as error:
            self._process.metrics.reload_failed()
            self._say(f"error: {error} Everything stays as it is.")

    async def _read(self) -> DesiredMounts:
        return await asyncio.to_thread(read_desired, self._folder, self._overrides)

    def _tell_errors(self, errors: tuple[FileError, ...]) -> None:
        for error in errors:
            if error not in self._errors:
                self._say(f"error: {error}")
        if errors and errors != self._errors:
            self._process.metrics.reload_failed()
            self._say(LEFT_OUT if self._starting else KEPT)
        elif self._errors and not errors:
            self._say("all files are valid again")
        self._errors = errors
        self._starting = False


async def run(folder: Path, overrides: Overrides, ports: Ports, say: Say) -> None:
    """Serve ``folder`` until told to stop. Raises CommandError."""
    stop = stop_signal()
    process = ProxyProcess(host=ports.host)
    control = FolderControl(process, folder, overrides, ports, say)
    async with aclosing(watch_folder(Folder(folder))) as states:
        first = await anext(states)
        await asyncio.to_thread(_check_first, first, overrides, ports)
        async with open_ports(process, control, ports, say):
            say(f"folder    {folder}")
            await control.changed(first)
            await run_until(stop, _follow(states, control))


def _check_first(state: FolderState, overrides: Overrides, ports: Ports) -> None:
    """What must be right from the start. Later on, the last good state is there to fall back on.

    Without the McpProxy the endpoint would be open to everybody, whatever its ``auth`` was to say.
    """
    if state.proxy_errors:
        faults = "; ".join(map(str, state.proxy_errors))
        raise InputError(
            f"{faults}. This may hide an McpProxy, which says who may use the endpoint: not started. Correct it first."
        )
    try:
        ports.check_exposure(desired(state, overrides).access)
    except SourceError as error:
        raise InputError(str(error)) from error
    if overrides.strict and state.errors:
        raise InputError(f"{'; '.join(map(str, state.errors))}. Correct it, or start without --strict.")


async def _follow(states: AsyncIterator[FolderState], control: FolderControl) -> None:
    try:
        async for state in states:
            await control.changed(state)
    except TimeoutError as error:
        raise CommandError("the file system does not answer. Check that the folder can be read.") from error
