"""The answer to one POST: a single JSON body as long as nothing comes before the response, an event stream after that.

It is the scope of the upstream request made for it. A request that takes longer than a moment is watched: a client
that goes away cancels it, and a silent stream is kept open with comments.
"""

from __future__ import annotations

import asyncio
from typing import Final, Generic, Protocol, TypeVar

from starlette.types import Receive, Send

from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.wire.event_stream import PING, encode_event
from mcp_connections.proxy.wire.forwarded_headers import Fields


class Reachable(Protocol):
    """A client that may be reached outside its requests, too."""

    def deliver(self, message: bytes) -> None:
        """Send a message outside any request."""


ClientT = TypeVar("ClientT", bound=Reachable)

MAX_QUEUED: Final = 1000
WATCH_SECONDS: Final = 0.5
"""Fast calls are not watched: watching costs a task."""
SILENCE_SECONDS: Final = 15.0

STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def send_body(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """A whole response. A body is JSON unless ``headers`` say otherwise."""
    lines = [(b"content-length", b"%d" % len(body))]
    if body and not any(name == b"content-type" for name, _ in headers or ()):
        lines.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": lines + (headers or [])})
    await send({"type": "http.response.body", "body": body})


class RequestStream(Generic[ClientT]):
    """The way back to the client for one request."""

    __slots__ = ("_queue", "_receive", "_send", "_task", "_timer", "_watcher", "_writer", "client", "fields", "streams")

    def __init__(self, client: ClientT, receive: Receive, send: Send, *, streams: bool, fields: Fields = ()) -> None:
        """``streams``: the client accepts text/event-stream. ``fields``: what may be passed on of its headers."""
        self.client = client
        self.fields = fields
        self.streams = streams
        self._receive = receive
        self._send = send
        self._queue: Outbox | None = None
        self._writer: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)

    # Scope

    def deliver(self, message: bytes) -> None:
        """Send a message ahead of the response; where the client takes no stream here, outside of this request."""
        if self.streams:
            self._put(encode_event(message))
        else:
            self.client.deliver(message)

    def _put(self, event: bytes) -> None:
        if self._queue is None:
            self._queue = Outbox("the stream of its request", MAX_QUEUED)
            self._writer = asyncio.create_task(self._write(self._queue))
        self._queue.push(event)

    async def _write(self, queue: Outbox) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    event = await queue.get()
            except TimeoutError:
                event = PING
            await self._send({"type": "http.response.body", "body": event or b"", "more_body": event is not None})
            if event is None:
                return

    def _watch(self) -> None:
        self._watcher = asyncio.create_task(self._watch_client())

    async def _watch_client(self) -> None:
        silence = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._break_silence)
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        finally:
            silence.cancel()
        if self._task is not None:
            self._task.cancel()

    def _break_silence(self) -> None:
        if self.streams and self._queue is None:
            self._put(PING)

    # the response

    async def finish(
        self, body: bytes | None, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """Send the response; None ends the answer without one (the client cancelled the request). ``status`` and
        ``headers`` count unless a stream has begun."""
        self._stop_watching()
        if self._queue is None or self._writer is None:
            if body is None:
                await send_body(self._send, 202, b"")
            else:
                await send_body(self._send, status, body, headers)
            return
        if body is not None:
            self._put(encode_event(body))
        self._queue.push(None)
        await self._writer

    def abandon(self) -> None:
        """The client is gone: send nothing more."""
        self._stop_watching()
        if self._writer is not None:
            self._writer.cancel()

    def _stop_watching(self) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
