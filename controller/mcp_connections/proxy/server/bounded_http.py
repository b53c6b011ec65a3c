"""uvicorn's HTTP/1.1 protocol with bounds on what it takes in before the application is asked.

uvicorn sets no limit to a request's head and no time for it: one client could fill the memory with header lines, and
as many as there are file descriptors could keep everybody else out by saying nothing.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES: Final = 64 * 1024
"""Request line and header lines together; also what may come between two pieces of a body, or behind it."""
HEAD_SECONDS: Final = 30.0
"""From the first byte of a request's head to its last."""

_HEAD_TOO_LARGE: Final = (431, "Request Header Fields Too Large", f"The head is larger than {MAX_HEAD_BYTES} bytes.")
_HEAD_TOO_SLOW: Final = (408, "Request Timeout", f"The head did not arrive within {HEAD_SECONDS:g} s.")
_OTHER_PROTOCOL: Final = (501, "Not Implemented", "This endpoint speaks HTTP/1.1 and changes to no other protocol.")
_UPGRADE: Final = re.compile(rb"(?im)^upgrade:")


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._without_effect = 0
        """Bytes since something of a request was complete or handed on."""
        self._deadline: asyncio.TimerHandle | None = None
        self._line = b""
        """The beginning of a header line whose end has not come yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        # A client that connects and says nothing is as idle as one between two requests.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._without_effect += len(data)
        if self._in_head:
            if self._deadline is None:
                self._deadline = self.loop.call_later(HEAD_SECONDS, self._refuse, *_HEAD_TOO_SLOW)
            data, self._line = _without_upgrade(self._line + data)
        super().data_received(data)
        if self._without_effect > MAX_HEAD_BYTES:
            self._refuse(*_HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._without_effect = 0
        self._stop_waiting()
        if self.parser.should_upgrade():
            # What follows would be read as another request, though it may be this one's body.
            self._refuse(*_OTHER_PROTOCOL)
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._without_effect = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._without_effect = 0
        super().on_message_complete()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int, phrase: str, text: str) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()


def _without_upgrade(data: bytes) -> tuple[bytes, bytes]:
    """What has come of a head without an offer of another protocol, which a server may ignore (RFC 9110, section 7.8),
    and the beginning of a line that is not complete. ``data`` begins with a line.

    httptools takes everything behind such a head for the other protocol and loses the body; the HTTP client of Java
    offers h2c with every request.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        complete = data.rfind(b"\n") + 1
        return _UPGRADE.sub(b"ignored:", data[:complete]), data[complete:]
    return _UPGRADE.sub(b"ignored:", data[:end]) + data[end:], b""
