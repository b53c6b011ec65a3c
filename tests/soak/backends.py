"""The backends of a soak: what they are reached by, and what can be done to them.

Those with a port live in the event loop of the soak itself; children are the proxy's own, and are told by signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from tests.soak.work import Work

ROOT = Path(__file__).parents[2]


class Backend(ABC):
    """One backend with a name of its own, which is its connection's name too."""

    faults: ClassVar[tuple[str, ...]]
    """What can be done to it; see ``faults.EXPLAINED``."""
    session = "Isolated"

    def __init__(self, name: str) -> None:
        self.name = name
        self.work = Work(name)

    @abstractmethod
    async def start(self) -> None:
        """Serve."""

    @abstractmethod
    async def stop(self) -> None:
        """End."""

    @abstractmethod
    def transport(self) -> dict[str, Any]:
        """``spec.transport`` of its manifest."""

    @abstractmethod
    async def suffer(self, fault: str, seconds: float) -> None:
        """Do something to it, and undo it after a while."""


class Child(Backend):
    """A stdio backend. The proxy starts it, for everybody together: a process for each of many clients is too much."""

    faults: ClassVar[tuple[str, ...]] = ("killed", "frozen")
    session = "Shared"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.parent = 0
        """Process id of the proxy, once it runs."""

    async def start(self) -> None:
        """The proxy does."""

    async def stop(self) -> None:
        """The proxy does."""

    def transport(self) -> dict[str, Any]:
        command = [sys.executable, "-S", "-m", "tests.soak.stdio_backend", self.name]
        return {"stdio": {"command": command, "env": [{"name": "PYTHONPATH", "value": str(ROOT)}]}}

    async def suffer(self, fault: str, seconds: float) -> None:
        pids = [pid for pid in children_of(self.parent) if self.name in command_line(pid)]
        if not pids:
            return
        if fault == "killed":
            _signal(random.choice(pids), signal.SIGKILL)  # noqa: S311
            await asyncio.sleep(seconds)
            return
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    """Process ids of the children of a process, those that only wait to be reaped too."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> list[str]:
    """The words a process was started with; none for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []
