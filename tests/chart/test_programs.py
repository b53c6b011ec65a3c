"""The programs are those that their modules pin."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.chart.programs import TOOLS, find_or_build


@pytest.mark.parametrize(("name", "major"), [("helm4", "v4"), ("helm3", "v3")])
def test_helm_is_of_the_version_in_its_module(name: str, major: str) -> None:
    pinned = re.search(rf"helm\.sh/helm/{major} (v\S+)", (TOOLS / name / "go.mod").read_text())
    assert pinned is not None

    said = subprocess.run(
        [str(find_or_build(name)), "version", "--template", "{{.Version}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert said.stdout == pinned[1]
