"""The README claims what is there: reasons, commands, options, metrics, ports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from mcp_connections.api.reasons import ProxyReason, Reason
from mcp_connections.cli.main import app
from mcp_connections.proxy.process import DRAIN_SECONDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CODE = [*re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL), *re.findall(r"`([^`\n]+)`", README)]
OTHERS_OPTIONS = {"--create-namespace", "--for", "--server-side"}
"""Of kubectl and Helm."""


@pytest.mark.parametrize("reason", sorted({*Reason, *ProxyReason}))
def test_every_reason_is_explained(reason: str) -> None:
    assert f"`{reason}`" in README


def test_every_command_that_is_shown_exists() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    shown = {command for code in CODE for command in re.findall(r"mcp-connections ([a-z]+)", code)}
    assert shown
    assert shown <= set(commands)


def test_every_option_that_is_named_exists() -> None:
    options = {
        option
        for command in get_command(app).commands.values()  # type: ignore[attr-defined]
        for parameter in command.params
        for option in parameter.opts
    }
    named = {option for code in CODE for option in re.findall(r"(?<!\S)--[a-z-]+", code)} - OTHERS_OPTIONS
    assert named
    assert named <= options


def test_what_calls_get_when_serve_is_stopped() -> None:
    (seconds,) = re.findall(r"lets calls in flight finish for (\d+) s at most", README)
    assert int(seconds) == DRAIN_SECONDS


def test_every_metric_is_listed() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "controller/mcp_connections/proxy").rglob("*metrics.py"))
    names = set(re.findall(r'"mcp_connections_(\w+)"', sources))
    page = (ROOT / "docs/observability.md").read_text()
    listed = {name.removesuffix("_total") for name in re.findall(r"`(\w+)`", page)}
    assert names
    assert names <= listed
