"""How a side of a conversation introduces itself (MCP 2025-11-25, basic/lifecycle, Initialization)."""

from __future__ import annotations

from typing import Final, NamedTuple

from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, RpcError

MAX_HELLO_BYTES: Final = 256 * 1024


class Hello(NamedTuple):
    """How this side introduces itself: raw JSON objects, a client's own where the session is its alone."""

    client_info: bytes
    capabilities: bytes


def hello_of(client_info: bytes, capabilities: bytes) -> Hello:
    """A client's own introduction, which is kept as long as the client is known. Raises RpcError."""
    if len(client_info) + len(capabilities) > MAX_HELLO_BYTES:
        raise RpcError(
            INVALID_PARAMS, f"the client's info and capabilities together are larger than {MAX_HELLO_BYTES} bytes"
        )
    return Hello(client_info=client_info, capabilities=capabilities)
