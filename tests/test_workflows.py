"""What GitHub runs is what anybody can run, by actions that cannot change under us, with no more rights than needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED = re.compile(r"\s+(?:- )?uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+")


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every job of every workflow."""
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield f"{path.name} {name}", job


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yaml", "release.yaml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_digest_and_say_which_version_that_is(path: Path) -> None:
    used = [line for line in path.read_text().splitlines() if "uses:" in line]

    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_nothing_else(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_every_job_ends() -> None:
    assert [name for name, job in jobs() if "timeout-minutes" not in job] == []


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [step["run"] for _, job in jobs() for step in job["steps"] if "run" in step]
    called = {target for run in runs for target in re.findall(r"\bmake ([a-z0-9-]+)", run)}

    assert {"lint", "test", "e2e"} <= called
    assert called <= targets


def test_ci_runs_what_the_project_asks_of_every_change() -> None:
    asked = set(re.findall(r"^make ([a-z0-9-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    runs = [step["run"] for name, job in jobs() if name.startswith("ci.yaml") for step in job["steps"] if "run" in step]

    assert asked <= {target for run in runs for target in re.findall(r"\bmake ([a-z0-9-]+)", run)}
