"""What the run measured, as a table at its end, and as JSON where MCP_CONNECTIONS_FIGURES says so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

PROPERTY = "figure"
FILE = "MCP_CONNECTIONS_FIGURES"


class Figures:
    """Takes the figures of one test. A goal is shown beside its figure; machines differ, so no test fails for one."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def seconds(self, name: str, value: float, *, goal: float | None = None) -> None:
        """A time in seconds."""
        self._record(PROPERTY, {"name": name, "seconds": round(value, 3), "goal": goal})

    def spread(self, name: str, values: Sequence[float], *, goal: float | None = None) -> None:
        """Median and 95th percentile of times in seconds."""
        cuts = quantiles(values, n=20, method="inclusive")
        self.seconds(f"{name}, p50 of {len(values)}", cuts[9], goal=goal)
        self.seconds(f"{name}, p95 of {len(values)}", cuts[18], goal=goal)


def summarise(terminal: pytest.TerminalReporter) -> None:
    """Print the table, and write the file."""
    reports = (report for each in terminal.stats.values() for report in each if isinstance(report, pytest.TestReport))
    if figures := list(_figures(reports)):
        terminal.section("figures")
        for each in figures:
            goal = "" if each["goal"] is None else f"   goal {each['goal']:g} s"
            terminal.line(f"{each['name']:<64} {each['seconds']:>8.2f} s{goal}")
    if path := os.environ.get(FILE):
        Path(path).write_text(json.dumps(figures, indent=1) + "\n")


def _figures(reports: Iterable[pytest.TestReport]) -> Iterable[dict[str, Any]]:
    for report in sorted(reports, key=lambda report: report.nodeid):
        if report.when == "call":
            for name, value in report.user_properties:
                if name == PROPERTY and isinstance(value, dict):
                    yield {"test": report.nodeid, **value}
