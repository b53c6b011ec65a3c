"""The official conformance suite, installed by npm into a cache outside the work tree, and run.

The suite needs Node.js 22, which comes with it from the registry, so that any machine with npm can run it. Parallel
test workers that find nothing wait for the first of them to install it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.results import Results

VERSION = "0.2.0-alpha.12"
PACKAGES = (f"@modelcontextprotocol/conformance@{VERSION}", "node@22")
PROGRAM = Path("node_modules/@modelcontextprotocol/conformance/dist/index.js")
NODE = Path("node_modules/node/bin/node")

INSTALL_SECONDS = 15 * 60.0
RUN_SECONDS = 10 * 60.0
"""For one run; it takes about ten seconds."""

EXTENSIONS = "extensions"
"""The scenarios of optional extensions, which belong to no revision."""
REVISIONS = ("2025-11-25", "2026-07-28", EXTENSIONS)


class Unavailable(Exception):
    """The suite cannot be had here. The text says what to install."""


def cache_folder() -> Path:
    """The folder that keeps this version of the suite between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mcp-connections" / f"conformance-{VERSION}"


def find_or_install() -> Suite:
    """The suite, installed first where it is missing. Raises Unavailable."""
    folder = cache_folder()
    if not _complete(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(f".{folder.name}.lock")):
            if not _complete(folder):
                _install(folder)
    return Suite(folder)


def _complete(folder: Path) -> bool:
    return os.access(folder / NODE, os.X_OK) and (folder / PROGRAM).is_file()


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(
            "The conformance suite is installed by npm, and there is no npm on the PATH: install Node.js with npm"
            " (any version that is still maintained; on Debian and Ubuntu: apt-get install npm)"
        )
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        quiet = ("--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--loglevel=error")
        _run([npm, "install", *quiet, "--prefix", scratch, *PACKAGES], INSTALL_SECONDS)
        if not _complete(Path(scratch)):
            raise Unavailable(
                f"npm installed {' and '.join(PACKAGES)}, but {NODE} or {PROGRAM} is not there: allow npm to run the"
                " install script of the package node (npm config get ignore-scripts must say false)"
            )
        shutil.rmtree(folder, ignore_errors=True)
        Path(scratch).rename(folder)


def _run(command: list[str], seconds: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)} took longer than {seconds:.0f} s; is the registry in reach?") from None
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)} failed; is the registry in reach?\n{done.stderr[-2000:]}")


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Hold ``lock`` against other processes. The kernel releases it if this one dies."""
    deadline = time.monotonic() + INSTALL_SECONDS
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(f"Another process has held {lock} for {INSTALL_SECONDS:.0f} s") from None
                time.sleep(0.5)
        for abandoned in lock.parent.glob(f"{lock.stem}-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield


class Suite:
    """The installed suite."""

    def __init__(self, folder: Path) -> None:
        self._program = [str(folder / NODE), str(folder / PROGRAM)]

    def scenarios(self, revision: str) -> list[str]:
        """The server scenarios of a revision, or those of the extensions."""
        selection = [] if revision == EXTENSIONS else ["--spec-version", revision]
        listed = re.findall(r"^  - (\S+) \[(.*)\]$", self._output("list", "--server", *selection), re.MULTILINE)
        return [name for name, since in listed if revision != EXTENSIONS or since == "extension"]

    def run(self, url: str, revision: str, folder: Path, only: Sequence[str] = ()) -> Results:
        """The scenarios of a revision, all or ``only`` these, against the server at ``url``; details are left in
        ``folder``."""
        expected = only or self.scenarios(revision)
        target = ["server", "--url", url, "--output-dir", str(folder)]
        version = [] if revision == EXTENSIONS else ["--spec-version", revision]
        if only or revision == EXTENSIONS:
            logs = [self._output(*target, *version, "--scenario", name) for name in expected]
        else:
            logs = [self._output(*target, *version, "--suite", "all")]
        (folder / "log.txt").write_text("\n".join(logs))
        return Results.read(folder, expected)

    def _output(self, *arguments: str) -> str:
        # A scenario that fails makes the exit code 1; what it found is in the files.
        done = subprocess.run(
            [*self._program, *arguments], capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        return done.stdout + done.stderr


if __name__ == "__main__":
    try:
        find_or_install()
    except Unavailable as error:
        sys.exit(str(error))
