"""Newline-delimited framing (MCP 2025-11-25, basic/transports, "stdio"), with a limit on the line.

Linear in the bytes fed, whatever the chunks: a pipe hands out at most 64 KiB at a time, a message may have 10 MiB.
"""

from __future__ import annotations

from typing import NamedTuple

from mcp_connections.proxy.channels.attribution import EDGE


class OversizedLine(NamedTuple):
    """A line over the limit. Only its two ends are kept."""

    head: bytes
    tail: bytes
    size: int


class LineSplitter:
    """Turns chunks into lines without their line feed. The memory used is bounded by ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._head = b""
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | OversizedLine]:
        """The lines completed by ``chunk``."""
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines = [self._complete(piece) for piece in pieces]
        if rest:
            self._extend(rest)
        return lines

    def end(self) -> list[bytes | OversizedLine]:
        """The unterminated last line, if there is one."""
        return [self._complete(b"")] if self._size else []

    def _complete(self, piece: bytes) -> bytes | OversizedLine:
        if not self._size and len(piece) <= self._limit:
            return piece
        self._extend(piece)
        line = bytes(self._partial)
        whole = line if not self._head else OversizedLine(self._head, line, self._size)
        self._partial.clear()
        self._head = b""
        self._size = 0
        return whole

    def _extend(self, piece: bytes) -> None:
        self._size += len(piece)
        # A bytearray grows in place and geometrically: neither joins nor a list of tiny chunks.
        self._partial += piece
        if self._size > self._limit:
            self._head = self._head or bytes(self._partial[:EDGE])
            del self._partial[:-EDGE]
