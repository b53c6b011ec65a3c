"""Headers of a client's request that its connection has passed on to the backend (``auth.forwardHeaders``).

Which ones is the connection's to say, and what they hold the client's, so both are bounded and checked here, once for
every transport that has headers. What they hold is never quoted: it may be as good as a credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST, RpcError

Fields = Sequence[tuple[bytes, bytes]]
"""The header fields of an HTTP request, names in lower case, in the order they came."""

MAX_VALUE_BYTES: Final = 8192
"""Of one field, as for the configured ones. All together are bounded by what the endpoint takes as a head."""

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class HeaderForwarding:
    """What one connection has passed on."""

    def __init__(self, names: Iterable[str], *, configured: Iterable[str], connection: str) -> None:
        """``configured``: the names of the transport's own headers, which win. ``connection`` is for errors."""
        taken = {name.lower() for name in configured}
        self._names = frozenset(name.lower().encode() for name in names if name.lower() not in taken)
        self._connection = connection

    def lines(self, fields: Fields) -> bytes:
        """The header lines for a request to the backend, ended by CRLF each; ``fields`` are those of the client's.

        Raises RpcError where a value is too long or has a control character: left out without a word it would be as
        if the client had not sent it.
        """
        found = [(name, value) for name, value in fields if name in self._names]
        if not found:
            return b""
        hop = nominated(fields)
        return b"".join(self._line(name, value) for name, value in found if name not in hop)

    def _line(self, name: bytes, value: bytes) -> bytes:
        if len(value) > MAX_VALUE_BYTES:
            raise self._refusal(name, f"has {len(value)} bytes, more than the {MAX_VALUE_BYTES} that are passed on")
        if _CONTROL.search(value):
            raise self._refusal(name, "has a control character inside, and cannot be passed on")
        return b"%s: %s\r\n" % (name, value)

    def _refusal(self, name: bytes, problem: str) -> RpcError:
        return RpcError(
            INVALID_REQUEST,
            f"the header {name.decode('latin-1')} {problem} to connection {self._connection}; send another value, or"
            " none",
        )


def nominated(fields: Fields) -> frozenset[bytes]:
    """Headers that the client meant for this hop alone (RFC 9110, section 7.6.1: those that Connection names)."""
    return frozenset(
        option.strip().lower() for name, value in fields if name == b"connection" for option in value.split(b",")
    )
