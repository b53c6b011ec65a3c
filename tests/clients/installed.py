"""Clients of other languages, installed or built once per version in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).parent
TYPESCRIPT = HERE / "typescript"
GOLANG = HERE / "golang"
TIMEOUT = 900.0
"""Seconds for one installation, downloads included."""


def npm_packages() -> Path:
    """A folder whose node_modules hold what ``typescript/package.json`` names."""
    npm = _program("npm", "Install Node.js 20 or later, which brings npm")

    def install(folder: Path) -> None:
        shutil.copy(TYPESCRIPT / "package.json", folder)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        _run([npm, "install", *options], folder)

    return _made_once("npm", [TYPESCRIPT / "package.json"], install)


def go_program() -> Path:
    """The program in ``golang``, built."""
    go = _program("go", "Install Go 1.25 or later")
    sources = [*sorted(GOLANG.glob("*.go")), GOLANG / "go.mod", GOLANG / "go.sum"]

    def build(folder: Path) -> None:
        _run([go, "build", "-trimpath", "-o", str(folder / "tour"), "."], GOLANG)

    return _made_once("go", sources, build) / "tour"


def node() -> str:
    """The Node.js program."""
    return _program("node", "Install Node.js 20 or later")


def _program(name: str, advice: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"no {name} in PATH. {advice}: the tests of clients that others wrote need it."
    return path


def _made_once(kind: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """A folder in the cache that ``make`` filled, for exactly these sources. Other test processes wait meanwhile."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-connections"
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"client-{kind}-{digest}"
    with (cache / f"client-{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = Path(tempfile.mkdtemp(dir=cache, prefix=f"client-{kind}-"))
            try:
                make(unfinished)
                unfinished.rename(made)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return made


def _run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr[-4000:]}"
