"""So many requests at once and no more; the others wait for their turn, in the order they came, but not for long."""

from __future__ import annotations

import asyncio
from typing import Final

MAX_WAITING: Final = 1024


class NoTurn(Exception):
    """The queue is full, or the wait was too long; the text says which."""


class Turns:
    """``limit`` turns at a time, waited for ``patience`` seconds at most."""

    def __init__(self, limit: int, patience: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._patience = patience
        self.waiting = 0

    async def take(self) -> None:
        """Wait for a turn; to be ended with ``give_back``. Raises NoTurn."""
        if not self._free.locked():
            await self._free.acquire()  # which does not wait
            return
        if self.waiting >= MAX_WAITING:
            raise NoTurn(f"{MAX_WAITING} more are waiting already")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError:
            raise NoTurn(f"none of them ended within {self._patience:g} s") from None
        finally:
            self.waiting -= 1

    def give_back(self) -> None:
        """A turn ended."""
        self._free.release()
