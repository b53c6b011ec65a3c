"""What the chart has from other files is as these have it, and a change of them would be noticed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mcp_connections import __version__
from tests.chart.helm import CHART, Helm
from tests.chart.programs import find_or_build

ROOT = CHART.parents[1]


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """``generate.py --check`` of a tree."""
    command = [sys.executable, str(root / "charts" / "generate.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_is_out_of_date() -> None:
    assert check(ROOT).stderr == ""


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (
            "crds/mcp-connections.io_mcpproxies.yaml",
            ["files/crds/mcp-connections.io_mcpproxies.yaml", "values.schema.json"],
        ),
        ("charts/mcp-connections/values.yaml", ["README.md"]),
        ("charts/mcp-connections/files/crds/mcp-connections.io_mcpproxies.yaml", ["files/crds/"]),
    ],
)
def test_a_change_is_noticed_and_the_files_are_named(tmp_path: Path, changed: str, named: list[str]) -> None:
    for folder in ("charts", "crds"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    path = tmp_path / changed
    text = path.read_text()
    path.write_text(text.replace("maximum: 100\n", "maximum: 99\n").replace("Stands for", "Is in place of"))
    assert path.read_text() != text

    done = check(tmp_path)

    assert done.returncode == 1
    for each in named:
        assert f"charts/mcp-connections/{each}" in done.stderr
    assert "make chart" in done.stderr


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == __version__


def test_the_package_of_a_release_names_its_image_by_digest(helm: Helm, helm_name: str, tmp_path: Path) -> None:
    digest = "sha256:" + "ab" * 32
    script = [sys.executable, str(ROOT / "charts" / "package.py"), "--repository", "registry.example/Team/mcp"]
    command = [*script, "--digest", digest, "--output", str(tmp_path), "--helm", str(find_or_build(helm_name))]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    (package,) = tmp_path.glob("*.tgz")

    rendered = helm.run("template", "mcp", str(package)).stdout

    assert package.name == f"mcp-connections-{__version__}.tgz"
    assert f'image: "registry.example/team/mcp@{digest}"' in rendered
    assert "kind: CustomResourceDefinition" in rendered
