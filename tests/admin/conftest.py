"""The admin surface over a control that only remembers: what a registry does with it is tested elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import pytest

from mcp_connections.mounts.plan import Plan, plan
from mcp_connections.mounts.report import CatalogReport, MountReport, RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec
from mcp_connections.proxy.admin.app import admin_app
from mcp_connections.proxy.admin.control import HealthReport, SourceError
from mcp_connections.proxy.admin.server import admin_server
from mcp_connections.proxy.telemetry.metrics import Metrics

TOKEN = "a-token-of-the-test"
SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def mount(name: str, *, ready: bool = True, attempted: bool = True, reason: str = "Ready") -> MountReport:
    """A mount as a registry would report it."""
    return MountReport(
        connection=ConnectionKey(namespace="team", name=name, uid=f"uid-{name}"),
        fingerprint=f"f-{name}",
        prefix=name,
        transport="http",
        ready=ready,
        attempted=attempted,
        reason=reason,
        message=f"{name}: {reason}",
        since=SINCE,
        in_flight=2,
        sessions=3,
        catalog=CatalogReport(tools=4, prompts=1, hash="h"),
    )


@dataclass
class RememberingControl:
    """An AdminControl without a registry behind it."""

    mounts: tuple[MountReport, ...] = (mount("github"),)
    ready: bool = True
    applied: list[DesiredMounts] = field(default_factory=list)
    broken_source: str | None = None
    apply_fault: Exception | None = None
    reloads: int = 0

    def report(self) -> RegistryReport:
        return RegistryReport(instance="i-1", ready=self.ready, separator="_", mounts=self.mounts)

    async def apply(self, desired: DesiredMounts) -> ReloadResult:
        if self.apply_fault is not None:
            raise self.apply_fault
        self.applied.append(desired)
        return ReloadResult(added=tuple(spec.connection for spec in desired.mounts))

    async def check_health(self) -> tuple[HealthReport, ...]:
        return tuple(
            HealthReport(
                connection=one.connection, healthy=one.ready, reason=one.reason, message=one.message, seconds=0.25
            )
            for one in self.mounts
        )

    async def reload(self) -> ReloadResult:
        if self.broken_source is not None:
            raise SourceError(self.broken_source)
        self.reloads += 1
        return ReloadResult(kept=tuple(one.connection for one in self.mounts))

    async def plan(self) -> Plan:
        if self.broken_source is not None:
            raise SourceError(self.broken_source)
        desired = DesiredMounts(mounts=(*map(spec_of, self.mounts), spec_of(mount("new"))))
        return plan(desired, self.report())


def spec_of(one: MountReport) -> MountSpec:
    """What must have been desired for ``one`` to be mounted."""
    server = HttpServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer hunter2"})
    return MountSpec(connection=one.connection, fingerprint=one.fingerprint, prefix=one.prefix, server=server)


@pytest.fixture
def control() -> RememberingControl:
    return RememberingControl()


@pytest.fixture
def metrics(control: RememberingControl) -> Metrics:
    metrics = Metrics()
    metrics.observe(control.report)
    return metrics


@pytest.fixture
async def url(control: RememberingControl, metrics: Metrics) -> AsyncIterator[str]:
    """An admin port with a token."""
    app = admin_app(control, metrics, TOKEN)
    async with admin_server(app, host="127.0.0.1", port=0, token=TOKEN) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def open_url(control: RememberingControl, metrics: Metrics) -> AsyncIterator[str]:
    """An admin port without a token, on loopback."""
    async with admin_server(admin_app(control, metrics, None), host="127.0.0.1", port=0, token=None) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def anyone() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client without a token."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
        yield session


@pytest.fixture
async def admin() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client with the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30), headers=headers) as session:
        yield session
