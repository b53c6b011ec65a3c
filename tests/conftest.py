"""Plugins for the whole suite."""

from __future__ import annotations

import pytest

pytest_plugins = ("tests.cluster.plugin", "tests.conformance.plugin")


def pytest_configure(config: pytest.Config) -> None:
    """Keep looptime's own plugin out: it asks for the current event loop in every test, synchronous ones too, which
    makes one that nobody closes. Tests that need virtual time make their loop themselves."""
    config.pluginmanager.unregister(name="looptime_plugin")
