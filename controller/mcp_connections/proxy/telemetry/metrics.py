"""What a proxy process counts, for Prometheus.

Calls are counted where they end, on the hot path, so their label children are resolved once and then found by one
dictionary look-up. Everything a registry can tell at any time (calls in flight, sessions, catalogue sizes, mounts by
state) is read from its report when somebody scrapes, and costs nothing in between. Every label has a bound: the
connections that are mounted, the methods a proxy relays, a fixed list of outcomes.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mcp_connections.mounts.report import MountReport, RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey
from mcp_connections.proxy.policies import refusals
from mcp_connections.proxy.telemetry.policy_metrics import PolicyCollector

METHODS = frozenset(
    {
        "tools/call",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/get",
        "completion/complete",
    }
)
"""Methods with a label of their own; all others are counted as ``other``."""

OK = "ok"
OUTCOMES = frozenset(
    {
        OK,
        "BackendError",
        "Cancelled",
        "CommandNotFound",
        "Exited",
        "ProtocolError",
        "Retired",
        *refusals.REASONS,
        "Timeout",
        "Unauthorized",
        "Unavailable",
        "Unreachable",
    }
)
"""``ok``: the backend answered, a tool's own ``isError`` included. ``BackendError``: it answered with a JSON-RPC
error. ``Retired`` and ``Unavailable``: the proxy answered for it. Those of ``refusals``: a policy kept the request from
the backend. The others are Ready reasons; what is not listed is counted as ``other``."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class _Finished(NamedTuple):
    """The bound methods of one label set: all a finished call has to look up."""

    call: Callable[[], None]
    error: Callable[[], None] | None
    duration: Callable[[float], None]


class Metrics:
    """The counters of one proxy process, in a Prometheus registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "mcp_connections_calls",
            "Requests relayed to a backend, by how they ended.",
            ["connection", "method", "outcome"],
            registry=self.registry,
        )
        self._errors = Counter(
            "mcp_connections_call_errors",
            "Relayed requests that did not end well, by kind.",
            ["connection", "kind"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "mcp_connections_call_duration_seconds",
            "Time from a client's request to the end of its answer.",
            ["connection", "method"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._clients_refused = Counter(
            "mcp_connections_client_requests_refused",
            "Requests of clients beyond the rate limit of the proxy.",
            registry=self.registry,
        )
        self._reloads = Counter(
            "mcp_connections_reloads", "Reloads of the desired mounts, by result.", ["result"], registry=self.registry
        )
        self._reloaded_mounts = Counter(
            "mcp_connections_reloaded_mounts",
            "What reloads did to mounts, by action.",
            ["action"],
            registry=self.registry,
        )
        self._finished: dict[tuple[str, str, str], _Finished] = {}

    def call_finished(self, connection: str, outcome: str, seconds: float, method: str = "tools/call") -> None:
        """Count one relayed request. ``connection`` is ``namespace/name``, ``outcome`` one of OUTCOMES."""
        finished = self._finished.get((connection, method, outcome))
        if finished is None:
            finished = self._resolve(connection, method, outcome)
        finished.call()
        if finished.error is not None:
            finished.error()
        finished.duration(seconds)

    def client_refused(self) -> None:
        """Count a request that came too soon after the client's others."""
        self._clients_refused.inc()

    def reloaded(self, result: ReloadResult) -> None:
        """Count a reload that was carried out, and what it did."""
        self._reloads.labels("applied").inc()
        for action in ("kept", "added", "replaced", "retired", "rejected", "skipped"):
            self._reloaded_mounts.labels(action).inc(len(getattr(result, action)))

    def reload_failed(self) -> None:
        """Count a reload whose input was refused: the last good state stays."""
        self._reloads.labels("failed").inc()

    def retain(self, connections: Iterable[ConnectionKey]) -> None:
        """Drop the series of every connection not among ``connections``.

        A call of a dropped connection that ends later starts its series anew; the next ``retain`` drops them again.
        """
        kept = {str(connection) for connection in connections}
        dropped = {key[0] for key in self._finished} - kept
        self._finished = {key: finished for key, finished in self._finished.items() if key[0] not in dropped}
        for connection in dropped:
            for metric in (self._calls, self._errors, self._seconds):
                metric.remove_by_labels({"connection": connection})

    def observe(self, report: Callable[[], RegistryReport]) -> None:
        """Read ``report`` at every scrape for what is true at that moment. To be called once."""
        self.registry.register(_RegistryCollector(report))
        self.registry.register(PolicyCollector(report))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition text for a scraper's ``Accept`` header, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _resolve(self, connection: str, method: str, outcome: str) -> _Finished:
        method_label = method if method in METHODS else "other"
        outcome_label = outcome if outcome in OUTCOMES else "other"
        failed = None if outcome == OK else self._errors.labels(connection, outcome_label).inc
        finished = _Finished(
            self._calls.labels(connection, method_label, outcome_label).inc,
            failed,
            self._seconds.labels(connection, method_label).observe,
        )
        if (method_label, outcome_label) == (method, outcome):
            self._finished[(connection, method, outcome)] = finished
        else:
            self._finished.setdefault((connection, method_label, outcome_label), finished)
        return finished


class _RegistryCollector(Collector):
    """Gauges made from a registry's report while it is being scraped."""

    def __init__(self, report: Callable[[], RegistryReport]) -> None:
        self._report = report

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name the families without asking for a report: the registry calls this when the collector is added."""
        yield from _families().values()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        report = self._report()
        families = _families()
        for mount in report.mounts:
            _add_mount(families, mount)
        states = Tally("Ready" if mount.ready else mount.reason for mount in report.mounts)
        for state in sorted({"Ready", *states}):
            families["mounts"].add_metric([state], states[state])
        draining = sum(retired.state == "Draining" for retired in report.retired)
        families["draining"].add_metric([], draining)
        families["rejected"].add_metric([], len(report.rejected))
        yield from families.values()


def _families() -> dict[str, GaugeMetricFamily]:
    per_connection = ["connection"]
    return {
        "in_flight": GaugeMetricFamily(
            "mcp_connections_calls_in_flight", "Requests waiting for their backend.", labels=per_connection
        ),
        "sessions": GaugeMetricFamily(
            "mcp_connections_upstream_sessions", "Open sessions with a backend.", labels=per_connection
        ),
        "catalog": GaugeMetricFamily(
            "mcp_connections_catalog_items", "What a connection adds to the catalogue.", labels=["connection", "kind"]
        ),
        "mounts": GaugeMetricFamily(
            "mcp_connections_mounts", "Mounted connections by state (a Ready reason).", labels=["state"]
        ),
        "draining": GaugeMetricFamily(
            "mcp_connections_mounts_draining", "Retired mounts that still have calls in flight or sessions to close."
        ),
        "rejected": GaugeMetricFamily(
            "mcp_connections_connections_rejected", "Connections that are not mounted because they were rejected."
        ),
    }


def _add_mount(families: dict[str, GaugeMetricFamily], mount: MountReport) -> None:
    connection = str(mount.connection)
    families["in_flight"].add_metric([connection], mount.in_flight)
    families["sessions"].add_metric([connection], mount.sessions)
    for kind in ("tools", "resources", "resource_templates", "prompts"):
        families["catalog"].add_metric([connection, kind], getattr(mount.catalog, kind))
