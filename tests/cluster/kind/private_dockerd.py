"""A Docker daemon of our own, for a machine whose Docker does not run: started and ended by this code alone.

It leaves the machine's firewall, forwarding and bridges as they are, so a container reaches no further than this
machine; what a build needs from outside comes over the machine's own network. Images stay in the cache between runs,
everything else is in one folder of /run, and goes with the daemon.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cache import Say, cache_root
from tests.cluster.kind.commands import run, succeeds
from tests.cluster.kind.debian import require, system_path
from tests.cluster.kind.engine import Engine
from tests.cluster.kind.leftovers import command_lines, end, members, remove_groups, unmount
from tests.cluster.version import Unavailable

START_SECONDS = 60.0
STOP_SECONDS = 60.0
PACKAGES = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
}
RUNTIME = Path(__file__).parent / "dockerd" / "runc-without-sys-resource"
_CAP_SYS_RESOURCE = 24
"""linux/capability.h"""


def start(say: Say) -> Engine:
    """The running private daemon, started first unless it answers. Raises Unavailable."""
    if os.geteuid() != 0:
        raise Unavailable(
            "Docker does not answer. Start it, or allow this user to use it (docker info must work); as root these "
            "tests start a Docker daemon of their own"
        )
    require(PACKAGES, say)
    engine = _engine()
    if _answers(engine):
        return engine
    stop()
    say("Starting a private Docker daemon ...")
    daemon = _spawn()
    deadline = time.monotonic() + START_SECONDS
    while not _answers(engine):
        if time.monotonic() > deadline or daemon.poll() is not None:
            log = (_folder() / "dockerd.log").read_text(errors="replace")[-3000:]
            stop()
            raise Unavailable(f"dockerd did not start within {START_SECONDS:.0f} s\n{log}")
        time.sleep(0.2)
    return engine


def running() -> Engine | None:
    """The private daemon, if its process is there."""
    return _engine() if _folder().exists() and _daemons() else None


def stop() -> None:
    """End the daemon and everything it has left: processes, mounts, its bridge, control groups. Does nothing where
    there is none; also clears up after one that was killed. Raises Unavailable."""
    if not _folder().exists():
        return
    end(_daemons(), signal.SIGTERM, STOP_SECONDS)
    # Both lists are empty unless the daemon was killed: containers and their shims outlive it then.
    end([*_started_by_daemon(), *members(_name())], signal.SIGKILL, STOP_SECONDS)
    unmount(_folder(), _data())
    if Path("/sys/class/net", bridge()).exists():
        run(["ip", "link", "delete", bridge()], seconds=30, environment={"PATH": system_path()})
    remove_groups(_name(), STOP_SECONDS)
    shutil.rmtree(_folder(), ignore_errors=True)


def _engine() -> Engine:
    return Engine(private=True, environment={"DOCKER_HOST": f"unix://{_socket()}", "PATH": system_path()})


def bridge() -> str:
    """Name of the bridge that the network of its containers is to have; the kernel takes 15 characters."""
    return f"mcp-{_key()}"


def _folder() -> Path:
    """In /run, so that a machine's restart clears it, and with a short path, as sockets need."""
    return Path("/run") / _name()


def _name() -> str:
    """Of the daemon's folder and control group."""
    return f"mcp-connections-{_key()}"


def _key() -> str:
    """One daemon for each cache: its images are there."""
    return hashlib.sha256(str(cache_root()).encode()).hexdigest()[:8]


def _socket() -> Path:
    return _folder() / "docker.sock"


def _data() -> Path:
    return cache_root() / "docker"


def _answers(engine: Engine) -> bool:
    return _socket().exists() and succeeds(["docker", "info"], seconds=20, environment=engine.environment)


def _spawn() -> subprocess.Popen[bytes]:
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _data().mkdir(parents=True, exist_ok=True)
    (folder / "daemon.json").write_text("{}")
    environment = os.environ | {"PATH": system_path()}
    with (folder / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            ["dockerd", *_flags(folder)],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _flags(folder: Path) -> Iterator[str]:
    yield f"--config-file={folder / 'daemon.json'}"
    yield f"--host=unix://{_socket()}"
    yield f"--data-root={_data()}"
    yield f"--exec-root={folder / 'exec'}"
    yield f"--pidfile={folder / 'docker.pid'}"
    yield f"--cgroup-parent=/{_name()}"
    yield "--exec-opt=native.cgroupdriver=cgroupfs"
    yield from ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false")
    if _lacks_sys_resource():
        runtime = folder / RUNTIME.name
        shutil.copyfile(RUNTIME, runtime)
        runtime.chmod(0o755)
        yield from (f"--add-runtime=limited={runtime}", "--default-runtime=limited")
        # Up to release 24 the daemon lowers its own OOM score, which takes the same right; later ones lack the flag.
        if _major_version() < 25:
            yield "--oom-score-adjust=0"


def _lacks_sys_resource() -> bool:
    status = Path("/proc/self/status").read_text()
    bounding = int(re.search(r"^CapBnd:\s*(\w+)$", status, re.MULTILINE)[1], 16)  # type: ignore[index]
    return not bounding >> _CAP_SYS_RESOURCE & 1


def _major_version() -> int:
    told = run(["dockerd", "--version"], seconds=30, environment={"PATH": system_path()})
    found = re.search(r"version (\d+)", told)
    return int(found[1]) if found else 0


def _daemons() -> list[int]:
    """Our daemon's process, if it runs."""
    data = f"--data-root={_data()}"
    return [pid for pid, line in command_lines() if Path(line[0]).name == "dockerd" and data in line]


def _started_by_daemon() -> list[int]:
    """Processes of a containerd, its shims and proxies that name our folder on their command line."""
    names = ("containerd", "containerd-shim-runc-v2", "docker-proxy")
    folder = str(_folder())
    return [
        pid
        for pid, line in command_lines()
        if Path(line[0]).name in names and any(word.startswith(folder) for word in line[1:])
    ]
