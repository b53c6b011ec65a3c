"""Random faults of backends, and what of a client's errors they explain."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from tests.soak.backends import Backend

EXPLAINED: dict[str, frozenset[str]] = {
    "refusing": frozenset({"Unreachable"}),
    "restarted": frozenset({"Unreachable"}),
    "forgetful": frozenset(),
    "silent": frozenset({"Timeout", "Unreachable"}),
    "cutting": frozenset({"Unreachable", "ProtocolError"}),
    "killed": frozenset({"Exited", "Unreachable"}),
    "frozen": frozenset({"Timeout"}),
}
"""The reasons that errors may give for each fault: the port is closed; so it is, and all sessions are lost; sessions
are lost, which no client notices; requests are swallowed and their connections cut in the end; answers are cut off; the
child is killed, which a write to its stdin may notice first; the child is stopped."""
AFTERMATH_SECONDS = 16.0
"""How long after its end a fault still explains errors: that of a request timing out (``manifests.TIMEOUTS``), on a
machine that is busy."""


class Window(NamedTuple):
    """A fault from its beginning to its end, in loop time."""

    fault: str
    start: float
    end: float


class Faults:
    """Does things to backends, a few at a time."""

    def __init__(self, backends: Sequence[Backend], *, pause: float, at_once: int, chance: random.Random) -> None:
        """``pause``: seconds from one fault to the next."""
        self.done: Counter[str] = Counter()
        self._backends = backends
        self._pause = pause
        self._at_once = at_once
        self._chance = chance
        self._windows: dict[str, deque[Window]] = {backend.name: deque(maxlen=8) for backend in backends}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._pause * self._chance.uniform(0.5, 1.5))
            healthy = [backend for backend in self._backends if backend.name not in self._running]
            if len(self._running) < self._at_once and healthy:
                self._begin(self._chance.choice(healthy))

    def _begin(self, backend: Backend) -> None:
        fault, seconds = self._chance.choice(backend.faults), self._chance.uniform(1.0, 5.0)
        self.done[fault] += 1
        start = asyncio.get_running_loop().time()
        self._windows[backend.name].append(Window(fault, start, start + 3600))
        task = asyncio.create_task(self._inflict(backend, fault, seconds))
        self._running[backend.name] = task

    async def _inflict(self, backend: Backend, fault: str, seconds: float) -> None:
        try:
            await backend.suffer(fault, seconds)
        finally:
            windows = self._windows[backend.name]
            windows.append(windows.pop()._replace(end=asyncio.get_running_loop().time()))
            del self._running[backend.name]

    async def over(self) -> None:
        """Wait for the end of those that have begun."""
        if self._running:
            await asyncio.wait(tuple(self._running.values()))

    def explain(self, connection: str, reason: str, start: float, end: float) -> bool:
        """Whether a call of this connection, from ``start`` to ``end``, may have failed for this reason."""
        return any(
            reason in EXPLAINED[window.fault] and start <= window.end + AFTERMATH_SECONDS and end >= window.start
            for window in self._windows.get(connection, ())
        )
