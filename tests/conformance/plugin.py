"""Shows the totals of the conformance runs at the end of a test run, whichever process made them."""

from __future__ import annotations

import pytest

PROPERTY = "conformance"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each run that a test recorded."""
    lines = {
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY
    }
    if lines:
        terminalreporter.section("conformance")
        for line in sorted(lines):
            terminalreporter.write_line(line)
