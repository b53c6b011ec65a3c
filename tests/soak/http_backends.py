"""Soak backends over streamable HTTP, in either era, and over legacy SSE.

Plain ASGI, so that their port can be closed and their connections cut at any moment.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from abc import abstractmethod
from typing import Any, ClassVar

from starlette.types import Receive, Scope, Send

from tests.backends.http_server import HttpServer
from tests.soak.backends import Backend
from tests.soak.work import STATELESS_VERSION, Message

EVENTS = [(b"content-type", b"text/event-stream")]


class HttpBackend(Backend):
    """Whatever has an HTTP port."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.server = HttpServer(self)
        self.sessions: dict[str, asyncio.Queue[bytes | None]] = {}
        """What goes out on each session's stream, by the session's id."""
        self.fault = ""
        self._over = asyncio.Event()
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        await self.server.start()

    async def stop(self) -> None:
        self._over.set()
        await self.server.stop()

    async def suffer(self, fault: str, seconds: float) -> None:
        self.fault = fault
        self._over = asyncio.Event()
        try:
            if fault in ("refusing", "restarted"):
                await self.server.stop()
                if fault == "restarted":
                    self.lose_sessions()
                await asyncio.sleep(seconds)
                await self.server.start()
            elif fault == "forgetful":
                self.lose_sessions()
            else:
                await asyncio.sleep(seconds)
        finally:
            self.fault = ""
            self._over.set()

    def lose_sessions(self) -> None:
        """Every session id is unknown from now on."""
        for outbox in self.sessions.values():
            outbox.put_nowait(None)
        self.sessions.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await _body(receive)
        if self.fault == "silent":
            await self._over.wait()
            self.server.drop_connections(tuple(scope["client"]))
            await _gone(receive)
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        await self.serve(scope, headers, json.loads(body) if body else {}, receive, send)

    @abstractmethod
    async def serve(
        self, scope: Scope, headers: dict[str, str], message: Message, receive: Receive, send: Send
    ) -> None:
        """Answer one HTTP request."""

    def new_session(self) -> str:
        session = f"{self.name}-{next(self._numbers)}"
        self.sessions[session] = asyncio.Queue()
        return session

    async def stream(self, session: str, receive: Receive, send: Send, first: bytes = b"") -> None:
        """Send what a session has to say until either side has gone."""
        outbox = self.sessions[session]
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        gone = asyncio.create_task(_gone(receive))
        item: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                item = asyncio.create_task(outbox.get())
                await asyncio.wait({item, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not item.done():
                    return
                if (message := item.result()) is None:
                    await send({"type": "http.response.body", "body": b""})
                    return
                await send({"type": "http.response.body", "body": _event(message), "more_body": True})
        finally:
            gone.cancel()
            if item is not None:
                item.cancel()


class StreamableHttp(HttpBackend):
    """Streamable HTTP with sessions (2025-11-25)."""

    faults: ClassVar[tuple[str, ...]] = ("refusing", "restarted", "forgetful", "silent", "cutting")

    def transport(self) -> dict[str, Any]:
        return {"http": {"url": f"{self.server.origin}/mcp"}}

    async def serve(
        self, scope: Scope, headers: dict[str, str], message: Message, receive: Receive, send: Send
    ) -> None:
        session = headers.get("mcp-session-id", "")
        if message.get("method") == "initialize":
            await _answer(send, 200, self.work.answer(message), (b"mcp-session-id", self.new_session().encode()))
        elif session not in self.sessions:
            await _answer(send, 404 if session else 400, {"error": "no such session"})
        elif scope["method"] == "GET":
            await self.stream(session, receive, send)
        elif scope["method"] == "DELETE":
            self.sessions.pop(session).put_nowait(None)
            await _answer(send, 200, {})
        else:
            await self.post(scope, message, send, stateless=False)

    async def post(self, scope: Scope, message: Message, send: Send, *, stateless: bool) -> None:
        if "id" not in message:
            await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await asyncio.sleep(self.work.delay(message))
        notices = self.work.notices(message)
        if self.fault == "cutting" and message["method"] == "tools/call":
            await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
            half = _event(json.dumps(self.work.answer(message, stateless=stateless)).encode())[:40]
            await send({"type": "http.response.body", "body": half, "more_body": True})
            self.server.drop_connections(tuple(scope["client"]))
        elif notices:
            await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
            for each in notices:
                event = _event(json.dumps(each).encode())
                await send({"type": "http.response.body", "body": event, "more_body": True})
            event = _event(json.dumps(self.work.answer(message, stateless=stateless)).encode())
            await send({"type": "http.response.body", "body": event})
        else:
            await _answer(send, 200, self.work.answer(message, stateless=stateless))


class StatelessHttp(StreamableHttp):
    """Streamable HTTP without sessions (2026-07-28)."""

    faults: ClassVar[tuple[str, ...]] = ("refusing", "silent", "cutting")

    async def serve(
        self, scope: Scope, headers: dict[str, str], message: Message, receive: Receive, send: Send
    ) -> None:
        if scope["method"] != "POST":
            await _answer(send, 405, {})
        elif headers.get("mcp-protocol-version") != STATELESS_VERSION:
            error = {
                "code": -32022,
                "message": "Unsupported protocol version",
                "data": {"supported": [STATELESS_VERSION]},
            }
            await _answer(send, 400, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        elif message.get("method") == "subscriptions/listen":
            await self._listen(message, receive, send)
        else:
            await self.post(scope, message, send, stateless=True)

    async def _listen(self, message: Message, receive: Receive, send: Send) -> None:
        session = self.new_session()
        params = {"notifications": message["params"]["notifications"], "_meta": _subscription(message)}
        method = "notifications/subscriptions/acknowledged"
        first = _event(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
        try:
            await self.stream(session, receive, send, first)
        finally:
            self.sessions.pop(session, None)


class LegacySse(HttpBackend):
    """HTTP with SSE (2024-11-05): a stream, and POSTs whose answers come on it."""

    faults: ClassVar[tuple[str, ...]] = ("refusing", "silent", "cutting")

    def transport(self) -> dict[str, Any]:
        return {"sse": {"url": f"{self.server.origin}/sse"}}

    async def serve(
        self, scope: Scope, headers: dict[str, str], message: Message, receive: Receive, send: Send
    ) -> None:
        if scope["method"] == "GET":
            session = self.new_session()
            endpoint = f"event: endpoint\ndata: /messages?session={session}\n\n".encode()
            try:
                await self.stream(session, receive, send, endpoint)
            finally:
                self.sessions.pop(session, None)
            return
        session = scope["query_string"].decode().removeprefix("session=")
        outbox = self.sessions.get(session)
        if outbox is None:
            await _answer(send, 404, {"error": "no such session"})
            return
        if "id" in message and "method" in message:
            await asyncio.sleep(self.work.delay(message))
            for each in (*self.work.notices(message), self.work.answer(message)):
                if self.fault == "cutting" and message["method"] == "tools/call":
                    outbox.put_nowait(None)
                    break
                outbox.put_nowait(json.dumps(each).encode())
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def _subscription(message: Message) -> Message:
    return {"io.modelcontextprotocol/subscriptionId": message["id"]}


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %s\n\n" % message


async def _answer(send: Send, status: int, body: Message, *headers: tuple[bytes, bytes]) -> None:
    text = json.dumps(body).encode()
    lines = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": text})


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        event = await receive()
        chunks.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(chunks)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
