"""The smallest files of their kind, made here rather than kept as text nobody can read."""

from __future__ import annotations

import base64
import struct
import zlib


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png() -> bytes:
    """One red pixel (ISO/IEC 15948)."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixel) + _chunk(b"IEND", b"")


def _wav() -> bytes:
    """Two silent samples, 8 kHz, 16 bit, one channel (RIFF WAVE)."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    samples = struct.pack("<4sIhh", b"data", 4, 0, 0)
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(samples), b"WAVE") + form + samples


PNG = base64.b64encode(_png()).decode("ascii")
WAV = base64.b64encode(_wav()).decode("ascii")
