"""From edges to levels: events mark a proxy dirty, and its worker is woken once the events have gone quiet.

A thousand events make few passes. A mark says nothing about what happened, so none can be lost between two
passes: the pass that follows reads everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

QUIET = 0.2
"""Seconds without a further event before a pass begins."""
CAP = 2.0
"""Seconds after which a pass begins even though events keep coming."""


class ProxyKey(NamedTuple):
    """An McpProxy by name. It need not exist: connections may refer to one that does not."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DirtyFlag:
    """Whether one proxy has to be looked at again, and since when."""

    def __init__(self, *, quiet: float = QUIET, cap: float = CAP) -> None:
        self._quiet = quiet
        self._cap = cap
        self._first: float | None = None
        self._last = 0.0
        self._marked = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """Marked and not cleared since."""
        return self._first is not None

    def mark(self) -> None:
        """Something about the proxy has changed."""
        self._last = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = self._last
        self._marked.set()

    def clear(self) -> None:
        """A pass begins. This comes before it reads anything, so that what changes meanwhile marks again."""
        self._first = None
        self._marked.clear()

    async def wait(self, timeout: float) -> bool:
        """True once marked and quiet. False when ``timeout`` seconds pass without a mark."""
        try:
            async with asyncio.timeout(timeout):
                await self._marked.wait()
        except TimeoutError:
            return False
        loop = asyncio.get_running_loop()
        while self._first is not None:
            due = min(self._last + self._quiet, self._first + self._cap)
            if (left := due - loop.time()) <= 0:
                break
            await asyncio.sleep(left)
        return True


class Trigger:
    """The dirty flags of all proxies. Bounded by what exists: a proxy that is gone is forgotten by its worker."""

    def __init__(self, *, quiet: float = QUIET, cap: float = CAP) -> None:
        self._quiet = quiet
        self._cap = cap
        self._flags: dict[ProxyKey, DirtyFlag] = {}
        self._arrived = asyncio.Event()
        self._new: list[ProxyKey] = []

    def mark(self, key: ProxyKey) -> None:
        """Have the proxy looked at soon. A key that has no worker yet gets one."""
        flag = self._flags.get(key)
        if flag is None:
            flag = self._flags[key] = DirtyFlag(quiet=self._quiet, cap=self._cap)
            self._new.append(key)
            self._arrived.set()
        flag.mark()

    def mark_all(self, keys: Iterable[ProxyKey]) -> None:
        """Mark ``keys`` and every proxy known so far: also one that nobody lists any more has to be looked at."""
        for key in {*keys, *self._flags}:
            self.mark(key)

    def flag(self, key: ProxyKey) -> DirtyFlag:
        """The flag of a proxy that was marked before."""
        return self._flags[key]

    def forget(self, key: ProxyKey) -> bool:
        """Drop a proxy of which nothing is left. False where it was marked meanwhile: it stays, with its worker."""
        if self._flags[key].is_set:
            return False
        del self._flags[key]
        return True

    async def arrivals(self) -> list[ProxyKey]:
        """Wait for proxies that have no worker yet and return them, each once."""
        await self._arrived.wait()
        self._arrived.clear()
        arrived, self._new = self._new, []
        return arrived
