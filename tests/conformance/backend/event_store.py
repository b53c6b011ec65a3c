"""What was sent on resumable streams, in memory (2025-11-25, basic/transports, Resumability and Redelivery)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage

MAX_EVENTS = 10_000


class _Event(NamedTuple):
    number: int
    stream: StreamId
    message: JSONRPCMessage | None


class RecentEvents(EventStore):
    """The last 10,000 events of all streams, numbered in the order they were sent."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=MAX_EVENTS)
        self._last = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._last += 1
        self._events.append(_Event(self._last, stream_id, message))
        return str(self._last)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        stream = next((event.stream for event in self._events if str(event.number) == last_event_id), None)
        if stream is None:
            return None
        for event in tuple(self._events):
            if event.stream == stream and event.number > int(last_event_id) and event.message is not None:
                await send_callback(EventMessage(event.message, str(event.number)))
        return stream
