"""Programs of the machine that come as Debian packages: installed where that may be done, else asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cache import Say, cache_root, exclusive
from tests.cluster.kind.commands import run
from tests.cluster.version import Unavailable

INSTALL_SECONDS = 15 * 60.0
PATIENT = ("-o", "DPkg::Lock::Timeout=300")
"""Waits as many seconds for another apt."""
POLICY = Path("/usr/sbin/policy-rc.d")
"""What Debian asks before it starts a service (invoke-rc.d(8)); exit code 101 means no."""
OUR_POLICY = (
    "#!/bin/sh\n# Of mcp-connections' end-to-end tests while they install packages; remove it otherwise.\nexit 101\n"
)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def system_path() -> str:
    """PATH with the folders of administrators' programs, which an ordinary user's often lacks."""
    return f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}"


def require(wanted: dict[str, str], say: Say) -> None:
    """See that the programs are there that are the keys of ``wanted``; the values are their packages. Raises
    Unavailable."""
    missing = _missing(wanted)
    if not missing:
        return
    programs, packages = ", ".join(missing), sorted(set(missing.values()))
    command = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable(f"Not found: {programs}. Install what has them (on Debian and Ubuntu, as root: {command})")
    with exclusive(cache_root() / ".apt.lock"):
        if missing := _missing(wanted):
            say(f"Installing {' '.join(packages)} ...")
            _install(sorted(set(missing.values())))
    if missing := _missing(wanted):
        raise Unavailable(f"Installed {' '.join(packages)}, but {', '.join(missing)} is still not found")


def _missing(wanted: dict[str, str]) -> dict[str, str]:
    return {program: package for program, package in wanted.items() if not shutil.which(program, path=system_path())}


def _install(packages: list[str]) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_started():
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            run(["apt-get", "-q", *PATIENT, *words], seconds=INSTALL_SECONDS, environment=quiet)


@contextmanager
def _no_service_started() -> Iterator[None]:
    """Debian starts a service when it installs it. Of Docker we want the programs, not a daemon that changes the
    machine's firewall."""
    if POLICY.exists() and POLICY.read_text() != OUR_POLICY:
        yield
        return
    POLICY.write_text(OUR_POLICY)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
