"""Helm as a user runs it, with nothing of this machine's own configuration."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.chart.programs import find_or_build

CHART = Path(__file__).parents[2] / "charts" / "mcp-connections"
TIMEOUT = 180.0
"""Seconds that one command may take on a busy machine."""


class Helm:
    """One version of Helm. ``folder`` takes what it keeps; ``kubeconfig``: the cluster it acts on."""

    def __init__(self, name: str, folder: Path, kubeconfig: Path | None = None, chart: Path = CHART) -> None:
        self._program = find_or_build(name)
        self._folder = folder
        self._kubeconfig = kubeconfig
        self.chart = chart

    def run(
        self, *arguments: str, values: Mapping[str, Any] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command. With ``check``, a failure is an AssertionError with its stderr."""
        given = () if values is None else ("--values", "-")
        done = subprocess.run(
            [str(self._program), *arguments, *given],
            input=None if values is None else json.dumps(values),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if check:
            assert done.returncode == 0, (
                f"helm {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}{done.stdout}"
            )
        return done

    def objects(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        release: str = "mcp",
        namespace: str = "apps",
        served: str = "",
    ) -> list[dict[str, Any]]:
        """What the chart renders. ``served``: kinds beyond the built-in ones, separated by commas."""
        more = ("--api-versions", served) if served else ()
        text = self.run(
            "template", release, str(self.chart), "--namespace", namespace, *more, values=values or {}
        ).stdout
        return [each for each in yaml.safe_load_all(text) if each]

    def refusal(self, values: Mapping[str, Any], *, namespace: str = "apps") -> str:
        """What Helm says about values that the chart does not take."""
        done = self.run("template", "mcp", str(self.chart), "--namespace", namespace, values=values, check=False)
        assert done.returncode != 0, "the values were taken"
        return done.stderr

    def _environment(self) -> dict[str, str]:
        folders = {f"HELM_{kind}_HOME": str(self._folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._kubeconfig or self._folder / "no-kubeconfig"),
            **folders,
        }


def one(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The one object of a kind, or of a kind and name."""
    (found,) = (each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"]))
    return found
