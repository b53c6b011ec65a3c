"""Where a request belongs in a distributed trace: what came with it, and what goes out with it (W3C Trace Context).

Both are of the task that serves the client's request. So a transport that sends something on its behalf finds the
header lines here, and nothing in between has to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MEMBERS: Final = (TRACEPARENT, TRACESTATE)
"""Names of the HTTP headers, and of the members of ``_meta`` (MCP 2026-07-28, basic/index, ``_meta``)."""

incoming: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("incoming_trace_context", default=None)
"""The headers of the client's HTTP request, where it has any of them."""
outgoing: Final[ContextVar[bytes]] = ContextVar("outgoing_trace_context", default=b"")
"""Header lines for requests to a backend."""


def note_headers(headers: Mapping[bytes, bytes]) -> None:
    """Remember what an HTTP request of a client says, for the task that serves it."""
    if TRACEPARENT.encode() in headers:
        found = {name: headers.get(name.encode()) for name in MEMBERS}
        incoming.set({name: value.decode("latin-1") for name, value in found.items() if value is not None})
