"""The end of what a child wrote to stderr: kept for the error that says why it died."""

from __future__ import annotations

from typing import Final

from mcp_connections.proxy.channels.redaction import Redactor

ENDS_WITH: Final = "; its stderr ends with: "
"""What comes before the tail in a message."""
LINES: Final = 20
BYTES: Final = 4096


class StderrTail:
    """The last lines of a stream of which everything else is forgotten."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = b""
        self._dropped = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Costs the same whatever came before."""
        kept = self._kept + data[-2 * BYTES :]
        # Twice what is shown: a secret at the edge must be whole to be recognised.
        self._dropped = self._dropped or len(data) > 2 * BYTES or len(kept) > 2 * BYTES
        self._kept = kept[-2 * BYTES :]

    def text(self) -> str:
        """At most 20 lines and 4096 characters, without secrets and control characters."""
        kept = self._kept.partition(b"\n")[2] or self._kept if self._dropped else self._kept
        lines = self._redactor.clean(kept).strip().split("\n")
        return "\n".join(line.rstrip() for line in lines[-LINES:])[-BYTES:]
