"""What is asked of a client's HTTP request before it is a message, and its body: bounded in size and time."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Receive

from mcp_connections.proxy.access.entrance import Headers, Refusal
from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST

BODY_SECONDS: Final = 60.0
"""How long a request's body may take."""


def wrong_method(method: str) -> Refusal:
    """What an HTTP method is answered with that streamable HTTP does not have."""
    text = f"MCP does not use HTTP {method}; use POST, GET or DELETE"
    return Refusal(405, INVALID_REQUEST, text, (b"allow", b"GET, POST, DELETE"))


def require_json(headers: Headers) -> None:
    """Raises Refusal for a body of another type. Also what keeps web pages out: a browser asks before it sends this
    type to another origin, and gets no leave."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Refusal(415, INVALID_REQUEST, "Content-Type must be application/json")


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole body. Raises Refusal where it is larger than ``limit`` bytes, late or cut short."""
    try:
        announced = int(headers.get(b"content-length", b"0"))
    except ValueError:
        raise Refusal(400, INVALID_REQUEST, "Content-Length must be a number") from None
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_announced(announced, receive, limit)
    except TimeoutError:
        refusal = f"the request body did not arrive within {BODY_SECONDS:g} s"
        raise Refusal(408, INVALID_REQUEST, refusal, (b"connection", b"close")) from None


async def _read_announced(announced: int, receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = announced
    received = 0
    while size <= limit:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Refusal(400, INVALID_REQUEST, "the request ended early")
        chunk = event.get("body", b"")
        if not event.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)
        received += len(chunk)
        size = max(announced, received)
    refusal = f"the request body is larger than {limit} bytes (spec.limits.requestBodyMib of the McpProxy)"
    raise Refusal(413, INVALID_REQUEST, refusal, (b"connection", b"close"))


def accepts_streams(headers: Headers) -> bool:
    """Whether the client takes an event stream for an answer."""
    accept = headers.get(b"accept", b"*/*").lower()
    return b"text/event-stream" in accept or b"*/*" in accept or b"text/*" in accept
