"""The stream that a client keeps open for messages outside its requests (GET)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Send

from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.downstream.request_stream import SILENCE_SECONDS, STREAM_HEADERS
from mcp_connections.proxy.server.disconnects import disconnected
from mcp_connections.proxy.wire.event_stream import PING, encode_event


async def send_stream(queue: Outbox, receive: Receive, send: Send, *, admitted: Callable[[], bool]) -> None:
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
