"""What the process as a whole is busy with."""

from __future__ import annotations

import asyncio

from mcp_connections.proxy.telemetry.metrics import Metrics
from mcp_connections.proxy.telemetry.process_metrics import ProcessCollector
from tests.proxy.running import RunningProxy, running_proxy


def gauge(metrics: Metrics, name: str) -> float:
    lines = metrics.render()[0].decode().splitlines()
    (line,) = [line for line in lines if line.startswith(f"mcp_connections_{name} ")]
    return float(line.split()[1])


async def sessions_of(proxy: RunningProxy) -> float:
    return gauge(proxy.process.metrics, "client_sessions")


async def test_sessions_are_counted_while_they_last() -> None:
    async with running_proxy() as proxy:
        assert await sessions_of(proxy) == 0
        clients = [await proxy.client() for _ in range(3)]
        assert await sessions_of(proxy) == 3
        await clients[0].delete()
        assert await sessions_of(proxy) == 2


async def test_tasks_are_counted_where_there_is_an_event_loop() -> None:
    metrics = Metrics()
    metrics.registry.register(ProcessCollector(lambda: 0))
    before = gauge(metrics, "tasks")
    waiting = [asyncio.create_task(asyncio.Event().wait()) for _ in range(5)]
    assert gauge(metrics, "tasks") == before + 5
    for task in waiting:
        task.cancel()


def test_a_scrape_from_elsewhere_counts_none() -> None:
    metrics = Metrics()
    metrics.registry.register(ProcessCollector(lambda: 7))
    assert (gauge(metrics, "client_sessions"), gauge(metrics, "tasks")) == (7, 0)
