"""What containers leave on a machine when their daemon goes, or was killed: processes, mounts, control groups."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.kind.commands import run
from tests.cluster.version import Unavailable

GROUPS = Path("/sys/fs/cgroup")


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """Every process of this machine with the words of its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if line[0]:
                yield int(entry.name), line


def end(pids: Iterable[int], how: signal.Signals, seconds: float) -> None:
    """Signal the processes and wait until they are gone. Raises Unavailable after ``seconds``."""
    waiting = set(pids)
    for pid in waiting:
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + seconds
    while waiting := {pid for pid in waiting if _alive(pid)}:
        if time.monotonic() > deadline:
            raise Unavailable(f"Processes {sorted(waiting)} did not end within {seconds:.0f} s of {how.name}")
        time.sleep(0.1)


def unmount(*folders: Path) -> None:
    """Take off everything that is mounted at or below ``folders``, newest first. Raises Unavailable."""
    mounted = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed(mounted):
        if any(place.is_relative_to(folder) for folder in folders):
            run(["umount", "--lazy", place], seconds=30)


def members(group: str) -> list[int]:
    """The processes in the control group of that name below the root, and in those within it."""
    return [
        int(pid)
        for top in _tops(group)
        for processes in (top / "cgroup.procs", *top.rglob("cgroup.procs"))
        for pid in processes.read_text().split()
    ]


def remove_groups(group: str, seconds: float) -> None:
    """Remove the control group of that name below the root, with those within it; nothing may run in them. The kernel
    needs a moment to see that. Raises Unavailable after ``seconds``."""
    deadline = time.monotonic() + seconds
    for top in _tops(group):
        for place in (*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top):
            while not _removed(place):
                if time.monotonic() > deadline:
                    raise Unavailable(f"The control group {place} is still in use after {seconds:.0f} s")
                time.sleep(0.1)


def _tops(group: str) -> list[Path]:
    """The group in each hierarchy: one of them, or with cgroup v1 one for each set of controllers."""
    roots = [GROUPS, *GROUPS.glob("*")]
    return sorted({(root / group).resolve() for root in roots if (root / group).is_dir()})


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
