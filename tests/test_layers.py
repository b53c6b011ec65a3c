"""The direction of imports (docs/architecture.md), and that the contracts in pyproject.toml can fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def lint_imports(source: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Check the package under ``source`` against the contracts of this project."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--config",
            str(ROOT / "pyproject.toml"),
            "--no-cache",
        ],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_imports_point_one_way(tmp_path: Path) -> None:
    result = lint_imports(ROOT / "controller", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("api/intruder.py", "import mcp_connections.mounts.spec", "api <- mounts"),
        ("mounts/intruder.py", "import mcp_connections.proxy.channels.channel", "api <- mounts"),
        ("proxy/intruder.py", "import mcp_connections.cli.main", "api <- mounts"),
        ("proxy/intruder.py", "import mcp_connections.operator", "api <- mounts"),
        ("folder/intruder.py", "import mcp_connections.proxy.channels.channel", "api <- mounts"),
        ("operator/intruder.py", "import mcp_connections.proxy.channels.channel", "api <- mounts"),
        ("stray/__init__.py", "", "api <- mounts"),
        ("proxy/wire/intruder.py", "import mcp_connections.proxy.registry.mount", "Within the proxy"),
        ("proxy/stray/__init__.py", "", "Within the proxy"),
        ("proxy/intruder.py", "import kopf", "Only the operator knows kopf"),
        ("operator/intruder.py", "import kubernetes_asyncio", "Only operator.cluster talks"),
        ("folder/intruder.py", "from kubernetes_asyncio import client", "Only operator.cluster talks"),
        ("mounts/intruder.py", "import time", "api and mounts are pure"),
        ("api/intruder.py", "import asyncio", "api and mounts are pure"),
        ("proxy/intruder.py", "import fastmcp", "FastMCP serves the admin surface and verifies tokens"),
    ],
)
def test_each_contract_can_fail(tmp_path: Path, module: str, statement: str, contract: str) -> None:
    source = tmp_path / "controller"
    shutil.copytree(ROOT / "controller", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    intruder = source / "mcp_connections" / module
    intruder.parent.mkdir(exist_ok=True)
    intruder.write_text(statement + "\n")

    result = lint_imports(source, tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [name for name, verdict in verdicts(result.stdout) if verdict == "BROKEN"]
    assert any(name.startswith(contract) for name in broken), broken


def verdicts(report: str) -> list[tuple[str, str]]:
    """Each contract with KEPT or BROKEN. Long names are wrapped in the report."""
    listed = " ".join(report.partition(" dependencies.")[2].partition("Contracts:")[0].split()).lstrip("- ")
    return re.findall(r"(\S.*?) (KEPT|BROKEN)(?: \(\d+ ignored imports?\))?", listed)
