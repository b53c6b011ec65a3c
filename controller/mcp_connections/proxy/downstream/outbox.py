"""Messages on their way to a client that may read slowly, or not at all: bounded in number and in bytes.

A backend is not held up by a client that is slow, so what does not fit is lost, the oldest first: a later progress or
log message says more than an earlier one, and the response comes last.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of all messages but the newest: as much as one message of a backend may have, so that none is lost to its successor
alone."""


class Outbox(asyncio.Queue[bytes | None]):
    """A queue of messages; None in it means the end."""

    def __init__(self, what: str, most: int) -> None:
        """``what`` the client reads from it, for the log. ``most``: how many messages are kept."""
        self._what = what
        self._most = most
        self._bytes = 0
        self._dropped = False
        super().__init__()

    def push(self, message: bytes | None) -> None:
        """Add a message; the oldest make room. The end needs none: the response before it must not be lost."""
        self.put_nowait(message)
        while message is not None and (self.qsize() > self._most or self._bytes - len(message) > MAX_BYTES):
            self.get_nowait()
            if not self._dropped:
                self._dropped = True  # a backend can send thousands a second, and one line says it all
                log.warning("a client reads %s too slowly; the oldest messages are dropped", self._what)

    def _put(self, item: bytes | None) -> None:
        self._bytes += len(item or b"")
        super()._put(item)

    def _get(self) -> bytes | None:
        item: bytes | None = super()._get()
        self._bytes -= len(item or b"")
        return item
