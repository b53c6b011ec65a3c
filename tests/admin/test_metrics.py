"""What is counted, under which labels, and that labels stay bounded."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_connections.mounts.report import RegistryReport, ReloadResult, RetiredMount
from mcp_connections.mounts.spec import ConnectionKey, Rejection
from mcp_connections.proxy.telemetry.metrics import Metrics
from tests.admin.conftest import mount

GITHUB = ConnectionKey(namespace="team", name="github")
JIRA = ConnectionKey(namespace="team", name="jira")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"mcp_connections_{name}", labels)


def test_calls_errors_and_durations() -> None:
    metrics = Metrics()
    for outcome, seconds in [("ok", 0.1), ("ok", 0.2), ("Timeout", 60.0)]:
        metrics.call_finished("team/github", outcome, seconds)
    metrics.call_finished("team/github", "ok", 0.1, "resources/read")
    of_tool = {"connection": "team/github", "method": "tools/call"}
    assert value(metrics, "calls_total", outcome="ok", **of_tool) == 2
    assert value(metrics, "calls_total", outcome="Timeout", **of_tool) == 1
    assert value(metrics, "call_errors_total", connection="team/github", kind="Timeout") == 1
    assert value(metrics, "call_errors_total", connection="team/github", kind="ok") is None
    assert value(metrics, "call_duration_seconds_count", **of_tool) == 3
    assert value(metrics, "call_duration_seconds_bucket", le="0.1", **of_tool) == 1
    assert value(metrics, "calls_total", connection="team/github", method="resources/read", outcome="ok") == 1


def test_unknown_methods_and_outcomes_share_one_label() -> None:
    metrics = Metrics()
    for number in range(50):
        metrics.call_finished("team/github", f"fault-{number}", 0.1, f"x/{number}")
    labels = {"connection": "team/github", "method": "other", "outcome": "other"}
    assert value(metrics, "calls_total", **labels) == 50
    assert len(metrics.render()[0].splitlines()) < 60


def test_series_of_connections_that_are_gone_are_dropped() -> None:
    metrics = Metrics()
    for connection in (GITHUB, JIRA):
        metrics.call_finished(str(connection), "ok", 0.1)
        metrics.call_finished(str(connection), "Exited", 0.1, "made/up")
    metrics.retain([GITHUB])
    text = metrics.render()[0].decode()
    assert "team/github" in text
    assert "team/jira" not in text


def test_a_call_that_ends_after_its_connection_is_gone_is_dropped_next_time() -> None:
    metrics = Metrics()
    metrics.call_finished("team/jira", "ok", 0.1)
    metrics.retain([])
    metrics.call_finished("team/jira", "ok", 0.1)
    assert value(metrics, "calls_total", connection="team/jira", method="tools/call", outcome="ok") == 1
    metrics.retain([])
    assert b"team/jira" not in metrics.render()[0]


def test_reloads() -> None:
    metrics = Metrics()
    metrics.reloaded(
        ReloadResult(added=(GITHUB, JIRA), rejected=(Rejection(connection=JIRA, reason="r", message="m"),))
    )
    metrics.reload_failed()
    assert value(metrics, "reloads_total", result="applied") == 1
    assert value(metrics, "reloads_total", result="failed") == 1
    assert value(metrics, "reloaded_mounts_total", action="added") == 2
    assert value(metrics, "reloaded_mounts_total", action="rejected") == 1
    assert value(metrics, "reloaded_mounts_total", action="kept") == 0


def test_gauges_follow_the_registry() -> None:
    retired = RetiredMount(
        connection=JIRA, fingerprint="f", reason="Removed", retired_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    state = RegistryReport(
        instance="i", ready=True, separator="_", mounts=(mount("github"), mount("jira", ready=False, reason="Timeout"))
    )
    metrics = Metrics()
    metrics.observe(lambda: state)
    assert value(metrics, "mounts", state="Ready") == 1
    assert value(metrics, "mounts", state="Timeout") == 1
    assert value(metrics, "calls_in_flight", connection="team/github") == 2
    assert value(metrics, "upstream_sessions", connection="team/github") == 3
    assert value(metrics, "catalog_items", connection="team/github", kind="tools") == 4
    assert value(metrics, "mounts_draining") == 0

    state = state.model_copy(update={"mounts": (), "retired": (retired,)})
    assert value(metrics, "mounts", state="Ready") == 0
    assert value(metrics, "calls_in_flight", connection="team/github") is None
    assert value(metrics, "mounts_draining") == 1
