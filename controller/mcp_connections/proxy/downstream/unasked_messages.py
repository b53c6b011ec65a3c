"""What a client is told outside its requests: on the stream that it keeps open, or kept for a while until it does."""

from __future__ import annotations

from typing import Final

from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.downstream.request_stream import Reachable

MAX_QUEUED: Final = 1000
MAX_UNHEARD: Final = 100
"""Messages kept for a client between two GET streams; the oldest are dropped."""


class UnaskedMessages(Reachable):
    """A client with a session, which may open a GET stream."""

    def __init__(self) -> None:
        self._stream: Outbox | None = None
        self._unheard = Outbox("no event stream or reconnects", MAX_UNHEARD)

    @property
    def listening(self) -> bool:
        """Whether a GET stream is open."""
        return self._stream is not None

    def open_stream(self) -> Outbox:
        """A GET stream for this client; None in it means the end. It takes the place of an older one, which the
        client must have lost sight of: a message goes to one stream only (basic/transports)."""
        self.close_stream()
        stream = Outbox("its event stream", MAX_QUEUED)
        while not self._unheard.empty():
            stream.push(self._unheard.get_nowait())
        self._stream = stream
        return stream

    def close_stream(self, stream: Outbox | None = None) -> None:
        """End the GET stream; only ``stream``, if given."""
        current = self._stream
        if current is None or (stream is not None and stream is not current):
            return
        self._stream = None
        current.push(None)

    def deliver(self, message: bytes) -> None:
        """Send a message outside any request. A client that does not read loses the oldest first."""
        (self._unheard if self._stream is None else self._stream).push(message)
