"""Builds the programs of a control plane, and of a node, from published Go modules, where no archive is in reach.

The module beside this file pins them: k8s.io/kubernetes replaces its staging modules by local folders, which a
module of our own has to point back at their published versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.version import NODE_PROGRAMS, VERSION, Unavailable

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    **{program: f"k8s.io/kubernetes/cmd/{program}" for program in NODE_PROGRAMS},
}
TIMEOUT = 30 * 60.0
"""Seconds for one program. The API server takes 5 minutes on 2 busy cores, its modules' download included."""


def build(programs: list[str], folder: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield the path of each of ``programs`` as soon as it is built in ``folder``. Raises Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Not built: no go command in PATH")
    for program in programs:
        say(f"Building {program} {VERSION} from Go modules, once for this machine ...")
        try:
            subprocess.run(
                [go, "build", "-trimpath", "-ldflags", _link_flags(), "-o", str(folder / program), PACKAGES[program]],
                cwd=Path(__file__).parent,
                env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"},
                check=True,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"Not built: go build {PACKAGES[program]}: {error.stderr.strip()[-2000:]}") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Not built: go build {PACKAGES[program]} took longer than {TIMEOUT:.0f} s") from error
        yield folder / program


def _link_flags() -> str:
    """Without a stamped version the server calls itself v0.0.0-master, and version skew checks refuse it."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    stamps = {
        "k8s.io/component-base/version.gitVersion": VERSION,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
        "k8s.io/component-base/version.gitCommit": "0" * 40,
        "k8s.io/component-base/version.buildDate": "1970-01-01T00:00:00Z",
        "k8s.io/client-go/pkg/version.gitVersion": VERSION,
    }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in stamps.items())])
