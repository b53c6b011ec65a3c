"""One proxy process: registry, sessions, relay and endpoint put together, served and taken down in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Final

from mcp_connections.mounts.report import ReloadResult
from mcp_connections.proxy.admin.control import HealthReport
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.downstream.client_session import SessionTable
from mcp_connections.proxy.downstream.endpoint import Endpoint
from mcp_connections.proxy.downstream.relay import Relay
from mcp_connections.proxy.downstream.replica import Replica
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.server.listening import serving
from mcp_connections.proxy.telemetry.metrics import Metrics
from mcp_connections.proxy.telemetry.process_metrics import ProcessCollector

DRAIN_SECONDS: Final = 10.0
"""What requests in progress get when the process is told to stop."""
END_SECONDS: Final = 2.0
"""What is left of them then, such as a response that a client is slow to read."""


class ProxyProcess:
    """Everything behind the public port."""

    def __init__(self, *, host: str, replica: Replica | None = None) -> None:
        self._replica = replica or Replica()
        self.registry = Registry()
        self.metrics = Metrics()
        self.sessions = SessionTable(self.registry, self._replica)
        relay = Relay(self.registry, self.metrics)
        self.app = Endpoint(self.registry, relay, self.sessions, bind=host, replica=self._replica)
        self.metrics.observe(self.registry.report)
        self.metrics.registry.register(ProcessCollector(lambda: len(self.sessions)))
        self.registry.on_reload = self._reloaded

    def _reloaded(self, result: ReloadResult) -> None:
        self.metrics.reloaded(result)
        self.metrics.retain(mount.spec.connection for mount in self.registry.mounts)

    @contextlib.asynccontextmanager
    async def serve(self, listener: socket.socket, *, drain_seconds: float = DRAIN_SECONDS) -> AsyncIterator[None]:
        """Serve clients on ``listener`` while the context is open; then end requests, mounts and streams, in that
        order. Nothing is left running after it: no session, no child process."""
        try:
            async with serving(self.app, listener, lifespan=False, drain_seconds=END_SECONDS):
                try:
                    yield
                finally:
                    await self.app.leave(drain_seconds)
                    await self.registry.aclose(f"the endpoint was stopped and gave it {drain_seconds:g} s to end")
                    self.app.close_streams()
        finally:
            self._replica.close()
            await self.registry.aclose("the endpoint was stopped")

    async def check_health(self) -> tuple[HealthReport, ...]:
        """Ping every backend at the same time."""
        return tuple(await asyncio.gather(*(_check(mount) for mount in self.registry.mounts)))


async def _check(mount: Mount) -> HealthReport:
    started = time.perf_counter()
    try:
        seconds = await mount.check()
    except ChannelError as error:
        seconds = time.perf_counter() - started
        return HealthReport(
            connection=mount.spec.connection, healthy=False, reason=error.reason, message=str(error), seconds=seconds
        )
    return HealthReport(
        connection=mount.spec.connection, healthy=True, reason="Ready", message="answered a ping", seconds=seconds
    )
