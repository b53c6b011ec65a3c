"""The requests of one client that are being answered, by their ids, and what is left of one that is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any


class RunningRequests:
    """Clients must not use an id twice at once (basic/index, Requests); of one that does none is forgotten."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, set[asyncio.Task[Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def add(self, request_id: bytes, task: asyncio.Task[Any]) -> None:
        """One more. ``request_id`` is raw JSON."""
        self._tasks.setdefault(request_id, set()).add(task)

    def discard(self, request_id: bytes, task: asyncio.Task[Any]) -> None:
        """It has ended."""
        tasks = self._tasks.get(request_id, set())
        tasks.discard(task)
        if not tasks:
            self._tasks.pop(request_id, None)

    def cancel(self, request_id: bytes) -> None:
        """The client wants no answer any more."""
        for task in tuple(self._tasks.get(request_id, ())):
            task.cancel()

    def cancel_all(self) -> None:
        """The client is gone."""
        for request_id in tuple(self._tasks):
            self.cancel(request_id)


def forgive_cancellation() -> None:
    """Go on in a task that was cancelled because nobody waits for its answer any more: the client cancelled the
    request or went away, or the server stops. What is left is to end the answer."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass
