"""``mcp-connections crd``."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.cli.conftest import run

CRDS = Path(__file__).parents[2] / "crds"


def test_stdout_holds_both_resources() -> None:
    result = run("crd")
    assert result.returncode == 0, result.stderr
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(result.stdout)]
    assert names == ["mcpconnections.mcp-connections.io", "mcpproxies.mcp-connections.io"]


def test_a_folder_gets_the_files_that_are_shipped(tmp_path: Path) -> None:
    result = run("crd", "--output", tmp_path / "new" / "crds")
    assert result.returncode == 0, result.stderr
    written = {path.name: path.read_text() for path in (tmp_path / "new" / "crds").iterdir()}
    assert written == {path.name: path.read_text() for path in CRDS.iterdir()}
