"""Helm of both major versions and kubectl-validate, built from their Go modules once per version.

What was built stays in the cache. ``python -m tests.chart.programs [NAME ...]`` builds ahead of the tests; parallel
test workers that find nothing wait for the first of them to do it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cache import cache_root, exclusive
from tests.cluster.version import VERSION as KUBERNETES

TOOLS = Path(__file__).parent / "tools"
"""A Go module for each program: its go.mod says which version, its go.sum what that is made of."""
NAMES = ("helm4", "helm3", "kubectl-validate")
TIMEOUT = 30 * 60.0
"""Seconds for one program. Helm takes 7 minutes on 2 busy cores, its modules' download included."""

_TOOL = re.compile(r"^tool (?P<package>\S+)$", re.MULTILINE)


def find_or_build(name: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The program, built first if it is not there. Fails with what is missing on this machine."""
    package, version = _pinned(name)
    program = cache_root() / f"{name}-{version}" / name
    if not program.exists():
        with exclusive(cache_root() / f".{name}-{version}.lock", say):
            if not program.exists():
                say(f"Building {name} {version} from Go modules, once for this machine ...")
                _build(name, package, version, program)
    return program


def _pinned(name: str) -> tuple[str, str]:
    """Package of a program, and the version that its go.mod requires."""
    text = (TOOLS / name / "go.mod").read_text()
    found = _TOOL.search(text)
    assert found is not None, f"{TOOLS / name / 'go.mod'} has no tool line"
    package = found["package"]
    module = package.removesuffix("/cmd/helm")
    required = re.search(rf"^\s*(?:require )?{re.escape(module)} (?P<version>v\S+)", text, re.MULTILINE)
    assert required is not None, f"{TOOLS / name / 'go.mod'} requires no {module}"
    return package, required["version"]


def _build(name: str, package: str, version: str, program: Path) -> None:
    go = shutil.which("go")
    assert go is not None, f"no go in PATH. Install Go 1.26 or later: the tests of the chart build {name} with it."
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=program.parent.parent) as scratch:
        done = subprocess.run(
            [go, "build", "-trimpath", "-ldflags", _link_flags(package, version), "-o", f"{scratch}/{name}", package],
            cwd=TOOLS / name,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"go build {package} failed:\n{done.stderr[-4000:]}"
        program.parent.mkdir(exist_ok=True)
        Path(scratch, name).replace(program)


def _link_flags(package: str, version: str) -> str:
    """Helm's own version, and for Helm 3 the Kubernetes that it takes for granted without a cluster."""
    if not package.endswith("/cmd/helm"):
        return "-s -w"
    module = package.removesuffix("/cmd/helm")
    stamps = {f"{module}/internal/version.version": version}
    if module.endswith("/v3"):
        major, minor, _ = KUBERNETES.removeprefix("v").split(".")
        for place in ("pkg/lint/rules", "pkg/chartutil"):
            stamps[f"{module}/{place}.k8sVersionMajor"] = major
            stamps[f"{module}/{place}.k8sVersionMinor"] = minor
    return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in stamps.items())])


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        try:
            print(find_or_build(each, lambda line: print(line, file=sys.stderr, flush=True)))
        except AssertionError as error:
            sys.exit(str(error))
