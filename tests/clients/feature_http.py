"""The feature backend over streamable HTTP, in either era."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from tests.backends.http_server import HttpServer
from tests.clients.features import Conversation, Era, Exchange, Features, Message

EVENT_STREAM = [(b"content-type", b"text/event-stream")]
VERSIONS = ["2026-07-28"]


class FeatureHttp:
    """Serve it with ``serving``."""

    def __init__(self, era: Era) -> None:
        self.features = Features(era)
        self.server = HttpServer(self)
        self.sessions: dict[str, Conversation] = {}
        self.headers: list[dict[str, str]] = []
        """Of every POST so far."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[FeatureHttp]:
        """On a free port."""
        await self.server.start()
        try:
            yield self
        finally:
            await self.server.stop()

    @property
    def url(self) -> str:
        return f"{self.server.origin}/mcp"

    def become(self, era: Era) -> None:
        """As if a server of the other era had been put in its place."""
        self.features = Features(era)
        self.sessions.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if self.features.era == "stateless":
            await self._stateless(scope["method"], headers, receive, send)
        else:
            await self._handshake(scope["method"], headers, receive, send)

    # the handshake era

    async def _handshake(self, verb: str, headers: dict[str, str], receive: Receive, send: Send) -> None:
        session_id = headers.get("mcp-session-id", "")
        conversation = self.sessions.get(session_id)
        if verb == "POST":
            message = await self._message(headers, receive)
            if message.get("method") == "initialize":
                session_id = secrets.token_hex(4)
                conversation = self.sessions[session_id] = Conversation(lambda message: None)
            if conversation is None:
                await _respond(send, 404 if session_id else 400, {"error": "no session"})
                return
            session = [(b"mcp-session-id", session_id.encode())]
            await self._posted(message, conversation, headers, receive, send, session)
        elif conversation is None:
            await _respond(send, 404, None)
        elif verb == "GET":
            outbox: asyncio.Queue[Message | None] = asyncio.Queue()
            conversation.send = outbox.put_nowait
            self.features.open(conversation)
            try:
                await _stream(outbox, receive, send)
            finally:
                self.features.close(conversation)
        else:
            del self.sessions[session_id]
            await _respond(send, 200, None)

    async def _posted(
        self,
        message: Message,
        conversation: Conversation,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
    ) -> None:
        if "method" not in message:
            conversation.answered(message)
            await _respond(send, 202, None)
        elif "id" not in message:
            self.features.notified(message, conversation)
            await _respond(send, 202, None)
        else:
            await self._answer(message, conversation, headers, receive, send, extra)

    # the stateless era

    async def _stateless(self, verb: str, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if verb != "POST":
            await _respond(send, 405, None)
            return
        message = await self._message(headers, receive)
        version = headers.get("mcp-protocol-version")
        if "id" not in message:
            await _respond(send, 202, None)
        elif version != VERSIONS[0] or headers.get("mcp-method") != message["method"]:
            error = {"code": -32020, "message": f"header mismatch; this server speaks {VERSIONS}"}
            if version not in (None, *VERSIONS):
                error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": VERSIONS}}
            await _respond(send, 400, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif message["method"] == "subscriptions/listen":
            outbox: asyncio.Queue[Message | None] = asyncio.Queue()
            conversation = self.features.listen(message, outbox.put_nowait)
            try:
                await _stream(outbox, receive, send)
            finally:
                self.features.close(conversation)
        else:
            await self._answer(message, Conversation(lambda message: None), headers, receive, send, [])

    # both

    async def _message(self, headers: dict[str, str], receive: Receive) -> Message:
        self.headers.append(headers)
        chunks: list[bytes] = []
        while True:
            event = await receive()
            chunks.append(event.get("body", b""))
            if not event.get("more_body", False):
                message: Message = json.loads(b"".join(chunks))
                return message

    async def _answer(
        self,
        message: Message,
        conversation: Conversation,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
    ) -> None:
        outbox: asyncio.Queue[Message | None] = asyncio.Queue()
        exchange = Exchange(self.features.era, message, conversation, outbox.put_nowait, headers)
        work = asyncio.create_task(self.features.answer(exchange))
        first = asyncio.create_task(outbox.get())
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({work, first, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not first.done():
                await _respond(send, 200, work.result(), extra)
                return
            if gone.done():
                exchange.cancelled.set()
                return
            work.add_done_callback(lambda done: _finish(outbox, done.result()))
            await _stream(outbox, receive, send, first=first.result(), gone=gone, headers=extra)
            if not work.done():
                exchange.cancelled.set()
        finally:
            for task in (first, gone):
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await work


def _finish(outbox: asyncio.Queue[Message | None], response: Message) -> None:
    outbox.put_nowait(response)
    outbox.put_nowait(None)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stream(
    outbox: asyncio.Queue[Message | None],
    receive: Receive,
    send: Send,
    *,
    first: Message | None = None,
    gone: asyncio.Task[None] | None = None,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Send what the outbox holds as events until it holds None or the client is gone."""
    gone = gone or asyncio.create_task(_disconnected(receive))
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM + (headers or [])})
    await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
    message = first
    try:
        while True:
            if message is None:
                next_one = asyncio.create_task(outbox.get())
                await asyncio.wait({next_one, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not next_one.done():
                    next_one.cancel()
                    return
                message = next_one.result()
            if message is None:
                await send({"type": "http.response.body", "body": b""})
                return
            body = b"data: %s\n\n" % json.dumps(message).encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
            message = None
    finally:
        gone.cancel()


async def _respond(send: Send, status: int, body: Any, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [(b"content-length", b"%d" % len(data)), (b"content-type", b"application/json"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": data})
