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
    """Take off everything that is mounted below ``folders``, innermost first. Raises Unavailable."""
    inside = tuple(f"{folder}/" for folder in folders)
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed([place for place in mounted if place.startswith(inside)]):
        run(["umount", "--lazy", place], seconds=30)


def members(group: str) -> list[int]:
    """The processes in the control group of that name below the root, and in those within it."""
    return [
        int(pid)
        for top in _tops(group)
        for processes in (top / "cgroup.procs", *top.rglob("cgroup.procs"))
        for pid in processes.read_text().split()
    ]


def remove_groups(group: str) -> None:
    """Remove the control group of that name below the root, with those within it; nothing may run in them."""
    for top in _tops(group):
        for inner in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
            inner.rmdir()
        top.rmdir()


def _tops(group: str) -> list[Path]:
    """The group in each hierarchy: one of them, or with cgroup v1 one for each set of controllers."""
    roots = [GROUPS, *GROUPS.glob("*")]
    return sorted({(root / group).resolve() for root in roots if (root / group).is_dir()})


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
