"""Server-sent events, both ways (WHATWG HTML, section 9.2 "Server-sent events").

Parsing is incremental and linear in the bytes fed, whatever the chunks: a 3 MiB event arrives in fifty of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PING: Final = b": ping\n\n"
"""A comment: keeps intermediaries from closing an idle stream."""
_RETRY_DIGITS: Final = 10
"""More than a hundred days of milliseconds; Python refuses to read numbers of thousands of digits."""


class EventTooLarge(Exception):
    """An event, or one line of it, is over the limit."""


class ServerSentEvent(NamedTuple):
    """One dispatched event. ``id`` is None where the event carried none; ``retry`` is in milliseconds."""

    event: str
    data: bytes
    id: str | None
    retry: int | None


def encode_event(message: bytes) -> bytes:
    """One MCP message as an event. A line break in JSON is white space between tokens; here it would end the line."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: message\ndata: %s\n\n" % message


class EventStreamParser:
    """Turns the chunks of a text/event-stream body into events.

    An event with an id or a retry but without data is dispatched too, with empty data: MCP uses it to prime
    resumption (SEP-1699). Raises EventTooLarge beyond ``limit`` bytes.
    """

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._after_cr = False
        self._started = False
        self._reset()

    def _reset(self) -> None:
        self._event = ""
        self._data: list[bytes] = []
        self._data_size = 0
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events completed by ``chunk``."""
        if not chunk:
            return []
        if b"\r" in chunk or self._after_cr:
            chunk = self._unify_line_ends(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        events: list[ServerSentEvent] = []
        if lines and self._partial:
            self._partial.append(lines[0])
            lines[0] = b"".join(self._partial)
            self._partial.clear()
            self._partial_size = 0
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
        self._check_size()
        return events

    def _check_size(self) -> None:
        if self._partial_size + self._data_size > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")

    def _unify_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _field(self, line: bytes) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1  # lines without anything in them take memory, too
            self._check_size()
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < _RETRY_DIGITS:
            self._retry = int(value)

    def _dispatch(self) -> ServerSentEvent | None:
        if not self._data and self._id is None and self._retry is None:
            self._reset()
            return None
        event = ServerSentEvent(self._event or "message", b"\n".join(self._data), self._id, self._retry)
        self._reset()
        return event
