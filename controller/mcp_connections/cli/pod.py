"""The process in a proxy pod: it starts from mounted files and is driven through its admin port.

Both say the same, but at different times: the operator pushes a change at once, the kubelet brings the files within a
minute or two. So for a while after a push the files are not looked at: they may still be older than it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from watchfiles import awatch

from mcp_connections.cli.admin_client import read_token
from mcp_connections.cli.announcements import Say
from mcp_connections.cli.failure import InputError
from mcp_connections.cli.mounted_files import MountedFiles
from mcp_connections.cli.running import Ports, Reporter, open_ports, run_until, stop_signal
from mcp_connections.mounts.plan import Plan, plan
from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.proxy.admin.control import HealthReport, SourceError
from mcp_connections.proxy.downstream.replica import Replica, derived_key
from mcp_connections.proxy.process import ProxyProcess

PUSH_HOLDS: Final = 180.0
"""Seconds for which a push outranks the files: a kubelet brings changed Secrets within two minutes at its defaults."""
LOOK_AGAIN: Final = 10.0
"""Seconds after which the files are read even though nothing said they changed."""

_log = logging.getLogger(__name__)


class PodControl:
    """The AdminControl of a pod."""

    def __init__(
        self,
        process: ProxyProcess,
        files: MountedFiles,
        ports: Ports,
        reporter: Reporter,
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._process = process
        self._files = files
        self._ports = ports
        self._reporter = reporter
        self._now = now or asyncio.get_running_loop().time
        self._pushed_at: float | None = None
        self._complaint = ""

    def report(self) -> RegistryReport:
        return self._process.registry.report()

    async def apply(self, desired: DesiredMounts) -> ReloadResult:
        return await self._apply(desired, pushed=True)

    async def check_health(self) -> tuple[HealthReport, ...]:
        return await self._process.check_health()

    async def reload(self) -> ReloadResult:
        return await self._apply(await asyncio.to_thread(self._files.read))

    async def plan(self) -> Plan:
        return plan(await asyncio.to_thread(self._files.peek), self.report())

    async def start(self) -> None:
        """Mount what the files say. Where they say nothing usable yet, a push or a later look brings it."""
        await self.look()

    async def follow(self) -> None:
        """Apply the files whenever their content changes. Runs until cancelled."""
        async for _ in awatch(
            self._files.folder,
            rust_timeout=int(LOOK_AGAIN * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            await self.look()

    async def look(self) -> None:
        if self._pushed_at is not None and self._now() - self._pushed_at < PUSH_HOLDS:
            return
        try:
            desired = await asyncio.to_thread(self._files.read_if_changed)
            if desired is not None:
                await self._apply(desired)
        except SourceError as error:
            self._complain(str(error))
            return
        self._complaint = ""

    async def _apply(self, desired: DesiredMounts, *, pushed: bool = False) -> ReloadResult:
        self._ports.check_exposure(desired.access)
        if pushed:
            self._pushed_at = self._now()
        result = await self._process.registry.apply(desired)
        self._reporter.applied(result, desired)
        return result

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            _log.warning("%s The mounts stay as they are.", complaint)
            self._process.metrics.reload_failed()
        self._complaint = complaint


async def run(folder: Path, ports: Ports, say: Say, *, pod_ip: str | None = None) -> None:
    """Serve the mounts in ``folder`` until told to stop. Raises CommandError."""
    stop = stop_signal()
    files = MountedFiles(folder)
    first = _first(files)
    try:
        ports.check_exposure(first.access)
    except SourceError as error:
        raise InputError(str(error)) from error
    process = ProxyProcess(host=ports.host, replica=_replica(ports, pod_ip))
    control = PodControl(process, files, ports, Reporter(process, say))
    async with open_ports(process, control, ports, say, drain_seconds=first.drain_timeout):
        await control.start()
        await run_until(stop, control.follow())


def _replica(ports: Ports, pod_ip: str | None) -> Replica:
    """This process among its replicas. They share the admin token, and what they sign with is made of it."""
    token = read_token(ports.admin_token_file)
    if not pod_ip or not token:
        return Replica()
    host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
    return Replica(f"{host}:{ports.port}", derived_key(token))


def _first(files: MountedFiles) -> DesiredMounts:
    """What the files say; nothing in particular where they cannot be used yet."""
    try:
        return files.peek()
    except SourceError:
        return DesiredMounts()
