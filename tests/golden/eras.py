"""What may differ beside names and URIs: only what the client's era requires and the backend's does not have.

This is the whole list; every other difference is a fault.
"""

from __future__ import annotations

from typing import Any

from tests.golden.json_text import Number
from tests.golden.server import Era

LIST_ADDITIONS: dict[Era, set[str]] = {
    "handshake": set(),
    # basic/index "ResultType", server/utilities/caching, and the proxy's own stamp: the list is of its making.
    "stateless": {"resultType", "ttlMs", "cacheScope", "_meta"},
}
"""Members of a list's result beside the list itself."""

PROTOCOL_META = "io.modelcontextprotocol/"
"""Members of a request's ``_meta`` that the stateless era requires and the other one does not have."""


def required_of_server(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result as a server of the stateless era has to give it."""
    added: dict[str, Any] = {"resultType": "complete"}
    if method == "resources/read":
        added |= {"ttlMs": Number("5000"), "cacheScope": "public"}
    return {**result, **added}


def as_client_needs(method: str, member: str, value: dict[str, Any], *, client: Era, backend: Era) -> dict[str, Any]:
    """What a client of one era hears of what a backend of another said."""
    if client == "handshake":
        return value
    if member == "error":
        # -32002 must not be emitted any more, whoever thought of it first (basic/index, "Error Codes").
        return {**value, "code": Number("-32602")} if value["code"] == Number("-32002") else value
    if backend == "stateless":
        return value
    added: dict[str, Any] = {"resultType": "complete"}
    if method == "resources/read":
        added |= {"ttlMs": Number("0"), "cacheScope": "private"}
    return {**added, **value}


def own_meta(params: dict[str, Any]) -> dict[str, Any] | None:
    """The ``_meta`` of a request less what belongs to the protocol."""
    meta = params.get("_meta")
    if meta is None:
        return None
    return {key: value for key, value in meta.items() if not key.startswith(PROTOCOL_META) and key != "progressToken"}
