"""What a proxy process is busy with as a whole, for Prometheus: what grows without bound would be seen here first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class ProcessCollector(Collector):
    """Gauges of the process, read while somebody scrapes."""

    def __init__(self, sessions: Callable[[], int]) -> None:
        """``sessions``: how many sessions clients have with the endpoint."""
        self._sessions = sessions

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name the families without looking: the registry calls this when the collector is added."""
        yield from _families(0, 0)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from _families(self._sessions(), _tasks())


def _families(sessions: int, tasks: int) -> tuple[GaugeMetricFamily, ...]:
    return (
        GaugeMetricFamily(
            "mcp_connections_client_sessions", "Sessions that clients have with the endpoint.", value=sessions
        ),
        GaugeMetricFamily("mcp_connections_tasks", "Tasks in the event loop of the process.", value=tasks),
    )


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # scraped from outside the event loop
        return 0
