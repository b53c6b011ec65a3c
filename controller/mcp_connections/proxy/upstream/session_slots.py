"""How many sessions clients may have with one backend at once (``session.maxSessions``).

A session that is being ended still counts, since the backend still has it; one that is about to take its place waits
for that moment rather than being refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from mcp_connections.proxy.upstream.session import UpstreamSession


class NoSlot(Exception):
    """All sessions are in use; the text says how many."""


class SessionSlots:
    """``limit`` slots. Waits ``patience`` seconds for sessions that are ending, and for no others."""

    def __init__(self, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        self._taken = 0
        self._ending = 0
        self._freed = asyncio.Event()

    async def hold(self, opening: Callable[[], Awaitable[UpstreamSession]]) -> UpstreamSession:
        """Open a session that takes up a slot until it is closed. Raises NoSlot."""
        slot = await self._take()
        try:
            session = await opening()
        except BaseException:
            slot.free()
            raise
        session.slot = slot
        return session

    async def _take(self) -> SessionSlot:
        if self._taken >= self._limit and self._ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    while self._taken >= self._limit and self._ending:
                        self._freed.clear()
                        await self._freed.wait()
        if self._taken >= self._limit:
            raise NoSlot(f"session.maxSessions allows clients {self._limit} at once, and all are in use")
        self._taken += 1
        return SessionSlot(self)

    def ending(self, change: int) -> None:
        """A session began to end, or has ended."""
        self._ending += change

    def free(self) -> None:
        """A session is gone."""
        self._taken -= 1
        self._freed.set()


class SessionSlot:
    """One session's slot."""

    def __init__(self, slots: SessionSlots) -> None:
        self._slots: SessionSlots | None = slots
        self._ending = False

    def ending(self) -> None:
        """The session is being ended."""
        if self._slots is not None and not self._ending:
            self._ending = True
            self._slots.ending(1)

    def free(self) -> None:
        """The session is gone, or was never opened. May be called twice."""
        slots, self._slots = self._slots, None
        if slots is not None:
            if self._ending:
                slots.ending(-1)
            slots.free()
