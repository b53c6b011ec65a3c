"""Dashboard and alerts ask for metrics and labels that a proxy process exposes, and Prometheus could read the file."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import aiohttp
import yaml
from fastmcp import Client
from prometheus_client.parser import text_string_to_metric_families

from mcp_connections.proxy.telemetry.metrics import Metrics
from tests.chart.helm import CHART
from tests.cli.conftest import PATIENCE, manifest, start_command

RULES = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
DASHBOARD = json.loads((CHART / "files" / "dashboards" / "mcp-connections.json").read_text())
NAME = re.compile(r"mcp_connections_\w+")
SELECTOR = re.compile(r"(mcp_connections_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"by \(([^)]*)\)")
MATCHED = re.compile(r"(\w+)(?:=~|!~|!=|=)")
OF_THE_SCRAPE = {"namespace", "pod"}
"""Labels that Prometheus adds where it finds the pod."""


def expressions() -> list[str]:
    """Every query of the dashboard and of the rules."""
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    rules = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    return [*panels, *variables, *rules]


def test_alerts_say_what_happened_and_what_to_do() -> None:
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"]
            assert rule["labels"]["severity"] in ("warning", "critical")


def test_panels_do_not_overlap_and_have_identities_of_their_own() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


async def test_every_metric_and_label_that_is_asked_for_is_exposed(tmp_path: Path) -> None:
    breaking = {"circuitBreaker": {}, "rateLimit": {"requests": 100, "per": "1s"}}
    (tmp_path / "echo.yaml").write_text(manifest("echo", "one", policy=breaking))
    async with start_command("serve", tmp_path, "--port", "0", "--admin-port", "0") as serve:
        await serve.said("ready +default/echo")
        async with Client(await serve.endpoint(), timeout=PATIENCE) as client:
            await client.call_tool((await client.list_tools())[0].name, {})
        async with aiohttp.ClientSession() as http, http.get(f"{await serve.admin()}/metrics") as response:
            text = await response.text()
    labels = exposed(text)

    # A failed call has its labels only once there was one.
    failed = Metrics()
    failed.call_finished("default/echo", "Timeout", 1.0)
    labels |= {name: known for name, known in exposed(failed.render()[0].decode()).items() if not labels.get(name)}

    assert {name for text in expressions() for name in NAME.findall(text)} <= set(labels)
    for expression in expressions():
        names = NAME.findall(expression)
        for name, matchers in SELECTOR.findall(expression):
            assert set(MATCHED.findall(matchers)) <= labels[name] | OF_THE_SCRAPE, expression
        for group in GROUPED.findall(expression):
            known = set.union(*(labels[name] for name in names))
            assert {label.strip() for label in group.split(",")} <= known | OF_THE_SCRAPE, expression


def exposed(text: str) -> dict[str, set[str]]:
    """Names of the label of each metric that is exposed, by the name of its samples."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
        for suffix in suffixes:
            labels[family.name + suffix] |= set()
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return dict(labels)
