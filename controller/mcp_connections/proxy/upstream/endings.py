"""What is being ended in the background, so that somebody can wait until nothing of it is left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Endings:
    """Endings under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, ending: Coroutine[Any, Any, None]) -> None:
        """See something that is being ended through to its end."""
        task = asyncio.create_task(ending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Return once everything that was added has ended, also what was added meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
