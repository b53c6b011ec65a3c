"""Where a request belongs in a distributed trace: what came with it, and what goes out with it (W3C Trace Context).

Both are of the task that serves the client's request, so that a transport which sends something on its behalf finds the
header lines here, and nothing in between has to know of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakKeyDictionary

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MEMBERS: Final = (TRACEPARENT, TRACESTATE)
"""Names of the HTTP headers, and of the members of ``_meta`` (MCP 2026-07-28, basic/index, ``_meta``)."""

incoming: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("incoming_trace_context", default=None)
"""The headers of the client's HTTP request, where it has any of them."""
# By task and not in its context, which every task inherits that it starts: the proxy's own work is not the client's.
_outgoing: Final[WeakKeyDictionary[asyncio.Task[Any], bytes]] = WeakKeyDictionary()


def note_headers(headers: Mapping[bytes, bytes]) -> None:
    """Remember what an HTTP request of a client says, for the task that serves it."""
    found = {name: headers.get(name.encode()) for name in MEMBERS} if TRACEPARENT.encode() in headers else {}
    # Always: the context may be that of the request before it on the same connection.
    incoming.set({name: value.decode("latin-1") for name, value in found.items() if value is not None} or None)


def send_with(lines: bytes) -> None:
    """Have these header lines go with every request to a backend that the present task sends."""
    task = asyncio.current_task()
    if task is not None:
        _outgoing[task] = lines


def outgoing() -> bytes:
    """The header lines for a request to a backend that the present task sends."""
    if not _outgoing:
        return b""
    task = asyncio.current_task()
    return b"" if task is None else _outgoing.get(task, b"")
