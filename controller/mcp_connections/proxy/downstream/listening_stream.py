"""The stream that a client keeps open for messages outside its requests (GET)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Send

from mcp_connections.mounts.spec import Access
from mcp_connections.proxy.access.entrance import Headers, Refusal
from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.downstream.request_body import accepts_streams
from mcp_connections.proxy.downstream.request_stream import SILENCE_SECONDS, STREAM_HEADERS
from mcp_connections.proxy.downstream.unasked_messages import UnaskedMessages
from mcp_connections.proxy.server.disconnects import disconnected
from mcp_connections.proxy.wire.event_stream import PING, encode_event
from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST


def require_streams(headers: Headers) -> None:
    """Raises Refusal where the client takes no event stream."""
    if not accepts_streams(headers):
        raise Refusal(406, INVALID_REQUEST, "GET opens an event stream; Accept must include text/event-stream")


async def serve_stream(session: UnaskedMessages, receive: Receive, send: Send, *, access: Callable[[], Access]) -> None:
    """Send the messages of ``session`` until its stream ends, the client goes, or ``access`` changes."""
    admitted_by = access()
    queue = session.open_stream()
    try:
        await _send_stream(queue, receive, send, admitted=lambda: access() == admitted_by)
    finally:
        session.close_stream(queue)


async def _send_stream(queue: Outbox, receive: Receive, send: Send, *, admitted: Callable[[], bool]) -> None:
    """Send what is put into ``queue`` until None is, or the client goes or has to ask anew because it may not be
    ``admitted`` any more. A silent stream is kept open with comments."""
    gone = asyncio.create_task(disconnected(receive))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await send({"type": "http.response.body", "body": PING, "more_body": True})
        while True:
            next_message = asyncio.create_task(queue.get())
            try:
                await asyncio.wait({gone, next_message}, timeout=SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not next_message.done():
                    next_message.cancel()
            if gone.done():
                return
            if not admitted():
                await send({"type": "http.response.body", "body": b""})
                return
            if next_message.cancelled() or not next_message.done():
                await send({"type": "http.response.body", "body": PING, "more_body": True})
                continue
            message = next_message.result()
            if message is None:
                await send({"type": "http.response.body", "body": b""})
                return
            await send({"type": "http.response.body", "body": encode_event(message), "more_body": True})
    finally:
        gone.cancel()
