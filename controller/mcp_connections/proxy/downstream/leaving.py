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


class Leaving:
    """The requests in progress, and whether further ones are taken."""

    def __init__(self) -> None:
        self.has_begun = False
        """Clients should be sent elsewhere, and what is no part of something in progress is refused."""
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request, until its response was sent."""
        self._requests += 1
        self._idle.clear()
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
            async with asyncio.timeout(seconds):
                await self._idle.wait()
