"""Finds out whose answer an unreadable message is.

A message that is over the size limit or is no valid JSON cannot be decoded, yet the request it answers must not
wait for its timeout. Servers write the id either before the result (Python) or behind it (TypeScript), so the two
ends of the message are enough.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mcp_connections.proxy.wire.jsonrpc import int_id

EDGE: Final = 4096
"""Bytes kept from each end of a message."""

_NAME: Final = rb'"((?:[^"\\]|\\.)*)"\s*:\s*'
_SCALAR: Final = rb'("(?:[^"\\]|\\.)*"|-?\d[-+.\deE]*|true|false|null)\s*'
_LEADING_MEMBER: Final = re.compile(_NAME + _SCALAR + rb",\s*")
_MEMBER_NAME: Final = re.compile(_NAME)
# A name with an escaped quote is not recognised from behind; no JSON-RPC member has one.
_TRAILING_MEMBER: Final = re.compile(rb',\s*"([^"\\]*)"\s*:\s*("[^"\\]*"|-?\d[-+.\deE]*|true|false|null)\s*$')


def answered_id(head: bytes, tail: bytes) -> int | None:
    """The integer id of the request which the message beginning with ``head`` and ending with ``tail`` answers.

    None where the message is no response, or where that cannot be told with certainty.
    """
    start = head.lstrip()
    end = tail.rstrip()
    if not start.startswith(b"{") or not end.endswith(b"}"):
        return None
    members: dict[bytes, bytes] = {}
    position = len(start) - len(start[1:].lstrip())
    while (member := _LEADING_MEMBER.match(start, position)) is not None:
        members[member[1]] = member[2]
        position = member.end()
    payload = _MEMBER_NAME.match(start, position)
    if payload is None or payload[1] not in (b"result", b"error"):
        return None
    # What stands directly before the closing brace of the message is a member of it, not of something inside.
    end = end[:-1]
    while (member := _TRAILING_MEMBER.search(end)) is not None:
        members[member[1]] = member[2]
        end = end[: member.start()]
    if b"method" in members or b"id" not in members:
        return None
    return int_id({"id": msgspec.Raw(members[b"id"])})
