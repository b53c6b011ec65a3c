"""Probes and metrics as the admin port serves them."""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from mcp_connections.proxy.telemetry.metrics import Metrics
from tests.admin.conftest import RememberingControl, mount


async def test_readiness_names_what_it_waits_for(
    anyone: aiohttp.ClientSession, url: str, control: RememberingControl
) -> None:
    control.ready = False
    control.mounts = (mount("github"), mount("jira", ready=False, attempted=False, reason="Connecting"))
    async with anyone.get(f"{url}/readyz") as response:
        assert response.status == 503
        assert "team/jira" in (text := await response.text())
        assert "team/github" not in text
    async with anyone.get(f"{url}/healthz") as response:
        assert response.status == 200
    control.ready = True
    async with anyone.get(f"{url}/readyz") as response:
        assert response.status == 200


async def test_metrics_are_prometheus_text(anyone: aiohttp.ClientSession, url: str, metrics: Metrics) -> None:
    metrics.call_finished("team/github", "ok", 0.02)
    async with anyone.get(f"{url}/metrics") as response:
        assert response.content_type == "text/plain"
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    (calls,) = [sample for sample in families["mcp_connections_calls"].samples if sample.name.endswith("_total")]
    assert calls.labels == {"connection": "team/github", "method": "tools/call", "outcome": "ok"}
    assert calls.value == 1


async def test_metrics_are_openmetrics_where_asked_for(anyone: aiohttp.ClientSession, url: str) -> None:
    async with anyone.get(f"{url}/metrics", headers={"Accept": "application/openmetrics-text"}) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")
