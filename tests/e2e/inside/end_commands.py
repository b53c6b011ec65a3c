"""Kills every process of the pod that was started as ``python3 -c`` but itself, and prints how many those were."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def is_command(pid: int) -> bool:
    """Whether it runs a program that it was given on the command line."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[:2] == [b"python3", b"-c"]


pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
commands = [pid for pid in pids if pid != os.getpid() and is_command(pid)]
for each in commands:
    os.kill(each, signal.SIGKILL)
print(len(commands))
