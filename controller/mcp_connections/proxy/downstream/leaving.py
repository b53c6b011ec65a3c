"""How an endpoint leaves: nobody is cut off, and nobody is kept.

A client whose call is under way may lose its session with its event stream, or may have to answer a question of the
backend first, on a connection that it opens for that. So the port stays open until the last call has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

RETRY_AFTER: Final = (b"retry-after", b"5")
STOPPING: Final = "this endpoint is being stopped, and nothing was done; try again in a few seconds"


QUIET_SECONDS: Final = 0.5
"""Seconds without a request after which nobody is taken to be in the middle of something: some clients make two of a
call, and read the list of tools before they believe the answer."""
NEW_UNTIL: Final = 0.5
"""The part of the time to leave in which clients that never pause may begin new requests."""


class Leaving:
    """The requests in progress, and whether further ones are taken."""

    def __init__(self) -> None:
        self.has_begun = False
        """Clients should be sent elsewhere."""
        self.refuses = False
        """Nothing new begins; what is in progress has what it needs."""
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._another = asyncio.Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request, until its response was sent."""
        self._requests += 1
        self._idle.clear()
        self._another.set()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    async def leave(self, seconds: float) -> None:
        """Return once no request is in progress, or after ``seconds``."""
        self.has_begun = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds * NEW_UNTIL):
                await self._quiet()
        self.refuses = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds * (1 - NEW_UNTIL)):
                await self._idle.wait()

    async def _quiet(self) -> None:
        if not self._requests:
            return
        while True:
            await self._idle.wait()
            self._another.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._another.wait()
            except TimeoutError:
                return
