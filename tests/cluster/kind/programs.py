"""The programs of a node and of a cluster's making, built from Go modules and kept by version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cluster import binaries, go_build
from tests.cluster.cache import Say, cache_root, exclusive
from tests.cluster.kind.commands import run
from tests.cluster.kind.versions import CRICTL, KIND
from tests.cluster.version import NODE_PROGRAMS, PROGRAMS, VERSION, Unavailable

BUILD_SECONDS = 30 * 60.0
"""For one program. CoreDNS takes three minutes on 2 busy cores, its modules' download included."""
SOURCES = Path(__file__).parent

_Build = Callable[[Path], None]


def kubernetes_programs(say: Say) -> dict[str, Path]:
    """PROGRAMS and NODE_PROGRAMS, all of exactly VERSION: a kubelet serves no API server older than itself. Raises
    Unavailable."""
    found = {program: binaries.find_or_prepare(say) / program for program in PROGRAMS}
    missing = list(NODE_PROGRAMS)
    if f"Kubernetes {VERSION}" not in run([found["kube-apiserver"], "--version"], seconds=60):
        missing += ["kube-apiserver", "kubectl"]
    folder = cache_root() / f"kind-node-{VERSION}"

    def build(program: str) -> _Build:
        def into(target: Path) -> None:
            list(go_build.build([program], target.parent, say))

        return into

    return found | _kept(folder, {program: build(program) for program in missing})


def kind(say: Say) -> Path:
    """The kind command, built first where neither the PATH nor the cache has this release of it. Raises Unavailable."""
    return present_kind() or _kept(_tools_folder(), {"kind": _installed("sigs.k8s.io/kind", KIND, say)})["kind"]


def present_kind() -> Path | None:
    """The kind command, if it is there. Without it no cluster was made here."""
    if (found := shutil.which("kind")) and f"kind {KIND} " in run([found, "version"], seconds=60):
        return Path(found)
    kept = _tools_folder() / "kind"
    return kept if os.access(kept, os.X_OK) else None


def node_tools(say: Say) -> dict[str, Path]:
    """crictl, coredns and pause. Raises Unavailable."""
    return _kept(
        _tools_folder(),
        {
            "crictl": _installed("sigs.k8s.io/cri-tools/cmd/crictl", CRICTL, say),
            "coredns": lambda target: _build(SOURCES / "coredns", ".", target, say),
            "pause": lambda target: _build(SOURCES / "node", "pause.go", target, say),
        },
    )


def kind_files() -> Path:
    """The files that kind's own node image is built from. Raises Unavailable."""
    told = run(
        [_go(), "mod", "download", "-json", f"sigs.k8s.io/kind@{KIND}"],
        seconds=BUILD_SECONDS,
        folder=SOURCES / "coredns",
        environment={"GOFLAGS": "", "GOWORK": "off"},
    )
    return Path(json.loads(told)["Dir"]) / "images/base/files"


def _tools_folder() -> Path:
    seen = hashlib.sha256(f"{KIND} {CRICTL}".encode())
    for source in ("coredns/main.go", "coredns/go.sum", "node/pause.go"):
        seen.update((SOURCES / source).read_bytes())
    return cache_root() / f"kind-tools-{seen.hexdigest()[:12]}"


def _kept(folder: Path, builds: dict[str, _Build]) -> dict[str, Path]:
    """The programs of ``builds`` in ``folder``; those it lacks are built first, and put there whole."""
    found = {program: folder / program for program in builds}
    if all(os.access(path, os.X_OK) for path in found.values()):
        return found
    with exclusive(folder.with_name(f".{folder.name}.lock")):
        folder.mkdir(exist_ok=True)
        for program, path in found.items():
            if not os.access(path, os.X_OK):
                with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
                    builds[program](Path(scratch) / program)
                    (Path(scratch) / program).replace(path)
    return found


def _installed(package: str, version: str, say: Say) -> _Build:
    def into(target: Path) -> None:
        say(f"Building {target.name} {version} from Go modules, once for this machine ...")
        run(
            [_go(), "install", "-trimpath", "-ldflags", "-s -w", f"{package}@{version}"],
            seconds=BUILD_SECONDS,
            environment={"CGO_ENABLED": "0", "GOBIN": str(target.parent), "GOFLAGS": "", "GOWORK": "off"},
        )

    return into


def _build(folder: Path, source: str, target: Path, say: Say) -> None:
    say(f"Building {target.name} from Go modules, once for this machine ...")
    run(
        [_go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", target, source],
        seconds=BUILD_SECONDS,
        folder=folder,
        environment={"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
    )


def _go() -> str:
    if go := shutil.which("go"):
        return go
    raise Unavailable("A cluster is made of programs that Go builds, and there is no go on the PATH: install Go 1.26")
