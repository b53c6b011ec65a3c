"""What policies do, for Prometheus: read from the registry's report while somebody scrapes.

The counters belong to a mount and begin anew with the next one of the same connection, as counters may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_connections.mounts.report import PolicyReport, RegistryReport

_CIRCUIT_STATES: Final = ("Closed", "Open", "HalfOpen")


class PolicyCollector(Collector):
    """Gauges and counters of all mounts' policies."""

    def __init__(self, report: Callable[[], RegistryReport]) -> None:
        self._report = report

    def describe(self) -> Iterator[Metric]:
        """Name the families without asking for a report: the registry calls this when the collector is added."""
        yield from _Families().all

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        for mount in self._report().mounts:
            families.add(str(mount.connection), mount.policy)
        yield from families.all


class _Families:
    def __init__(self) -> None:
        self._circuit = GaugeMetricFamily(
            "mcp_connections_circuit_breaker_state",
            "1 for the state that a connection's circuit breaker is in.",
            labels=["connection", "state"],
        )
        self._waiting = GaugeMetricFamily(
            "mcp_connections_calls_waiting", "Requests waiting for their turn (maxConcurrency).", labels=["connection"]
        )
        self._refused = CounterMetricFamily(
            "mcp_connections_calls_refused",
            "Requests that a limit kept from the backend.",
            labels=["connection", "limit"],
        )
        self._retries = CounterMetricFamily(
            "mcp_connections_call_retries", "Attempts beyond the first ones.", labels=["connection"]
        )
        self.all: tuple[Metric, ...] = (self._circuit, self._waiting, self._refused, self._retries)

    def add(self, connection: str, policy: PolicyReport) -> None:
        if policy.circuit is not None:
            for state in _CIRCUIT_STATES:
                self._circuit.add_metric([connection, state], float(policy.circuit == state))
        self._waiting.add_metric([connection], policy.waiting)
        for limit in ("concurrency", "rate", "circuit", "sessions"):
            self._refused.add_metric([connection, limit], getattr(policy.refused, limit))
        self._retries.add_metric([connection], policy.retries)
