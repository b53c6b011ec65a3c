"""A server that says what it is told to, byte for byte, in either era of the protocol.

It is given lists and outcomes as JSON text and knows nothing of what they mean: whatever differs at the other end of a
proxy was changed there. Handshake era without sessions (which servers may do), or stateless era.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from tests.backends.http_server import HttpServer

Era = Literal["handshake", "stateless"]
Envelope = dict[str, msgspec.Raw]

VERSIONS: dict[Era, str] = {"handshake": "2025-11-25", "stateless": "2026-07-28"}
MEMBERS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_CAPABILITIES = b'{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}}'
_ERA_MEMBERS = b',"resultType":"complete","ttlMs":60000,"cacheScope":"public"'

# What routing here is done by holds none, and msgspec would refuse the rest.
_HALF_A_PAIR = re.compile(rb"\\ud83d(?!\\u)")
_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Outcome(NamedTuple):
    """How one request is answered."""

    member: Literal["result", "error"]
    text: bytes
    notices: tuple[tuple[str, bytes], ...] = ()
    """Notifications ahead of the response: method, and the members of their params but for the progress token."""


@dataclass
class Lists:
    """What is listed: pages of items, each item as text."""

    pages: dict[str, list[list[bytes]]] = field(default_factory=dict)

    def page(self, member: str, number: int) -> tuple[bytes, bool]:
        """One page's items, and whether there is another."""
        pages = self.pages.get(member) or [[]]
        return b",".join(pages[number]), number + 1 < len(pages)


class GoldenServer:
    """Serve it with ``serving``."""

    def __init__(self, era: Era) -> None:
        self.era: Era = era
        self.http = HttpServer(self)
        self.lists = Lists()
        self.outcomes: dict[tuple[str, str], Outcome] = {}
        """By method, and by the name or URI asked for."""
        self.requests: list[Envelope] = []
        """The params of what was asked, since a test last looked."""
        self.question: tuple[str, bytes] | None = None
        """What the tool ``ask`` asks its client: method and params. Its result holds what it heard."""
        self._heard: asyncio.Future[bytes] | None = None
        self.bodies: deque[bytes] = deque(maxlen=10)
        """The last messages that came, as they came."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[GoldenServer]:
        """On a free port."""
        await self.http.start()
        try:
            yield self
        finally:
            await self.http.stop()

    @property
    def url(self) -> str:
        return f"{self.http.origin}/mcp"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await _respond(send, 405, b"")
            return
        body = await _body(receive)
        self.bodies.append(body)
        message = _envelope.decode(_HALF_A_PAIR.sub(b"?", body))
        if "id" not in message:
            await _respond(send, 202, b"")
            return
        if "method" not in message:
            if self._heard is not None:
                self._heard.set_result(bytes(message["result"]))
            await _respond(send, 202, b"")
            return
        if self.question is not None and b'"name":"ask"' in bytes(message.get("params", b"")):
            await self._ask(message, *self.question, send)
            return
        outcome = self._outcome(message)
        response = b'{"jsonrpc":"2.0","id":%s,"%s":%s}' % (message["id"], outcome.member.encode(), outcome.text)
        if not outcome.notices:
            await _respond(send, 200, response)
            return
        params = _envelope.decode(message["params"])
        token = _envelope.decode(params["_meta"]).get("progressToken") if "_meta" in params else None
        notices = [_notification(method, members, token) for method, members in outcome.notices]
        events = b"".join(b"data: %s\n\n" % each for each in (*notices, response))
        await _respond(send, 200, events, b"text/event-stream")

    async def _ask(self, message: Envelope, method: str, params: bytes, send: Send) -> None:
        answer = b'{"jsonrpc":"2.0","id":%s,"result":%%s}' % bytes(message["id"])
        if self.era == "stateless":
            given = _envelope.decode(message["params"])
            if "inputResponses" in given:
                heard = bytes(_envelope.decode(given["inputResponses"])["k"])
                assert bytes(given["requestState"]) == b'"golden state"'
                result = b'{"resultType":"complete","content":[],"heard":%s}' % heard
            else:
                question = b'{"method":"%s","params":%s}' % (method.encode(), params)
                result = b'{"resultType":"input_required","inputRequests":{"k":%s},"requestState":"golden state"}'
                result %= question
            await _respond(send, 200, answer % result)
            return
        self._heard = asyncio.get_running_loop().create_future()
        question = b'{"jsonrpc":"2.0","id":"q","method":"%s","params":%s}' % (method.encode(), params)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: %s\n\n" % question, "more_body": True})
        heard = await self._heard
        last = answer % (b'{"content":[],"heard":%s}' % heard)
        await send({"type": "http.response.body", "body": b"data: %s\n\n" % last})

    def _outcome(self, message: Envelope) -> Outcome:
        method = msgspec.json.decode(message["method"], type=str)
        params = _envelope.decode(message["params"]) if "params" in message else {}
        if method == "ping":
            return Outcome("result", b"{}")
        if method == "initialize" and self.era == "handshake":
            text = b'{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"golden","version":"1"}}'
            return Outcome("result", text % _CAPABILITIES)
        if method == "server/discover" and self.era == "stateless":
            text = b'{"supportedVersions":["2026-07-28"],"capabilities":%s%s}'
            return Outcome("result", text % (_CAPABILITIES, _ERA_MEMBERS))
        if (member := MEMBERS.get(method)) is not None:
            return self._page(member, params)
        unknown = Outcome("error", b'{"code":-32601,"message":"golden server: nothing is given for this"}')
        if (asked := params.get("name") or params.get("uri")) is None:
            return unknown
        self.requests.append(params)
        return self.outcomes.get((method, msgspec.json.decode(asked, type=str)), unknown)

    def _page(self, member: str, params: Envelope) -> Outcome:
        cursor = msgspec.json.decode(params["cursor"], type=str) if "cursor" in params else "0"
        items, more = self.lists.page(member, int(cursor))
        text = b'{"%s":[%s]' % (member.encode(), items)
        if more:
            text += b',"nextCursor":"%d"' % (int(cursor) + 1)
        return Outcome("result", text + (_ERA_MEMBERS if self.era == "stateless" else b"") + b"}")


def _notification(method: str, members: bytes, token: Any) -> bytes:
    if method == "notifications/progress":
        members = b'"progressToken":%s%s' % (token, b"," + members if members else b"")
    return b'{"jsonrpc":"2.0","method":"%s","params":{%s}}' % (method.encode(), members)


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        event = await receive()
        chunks.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(chunks)


async def _respond(send: Send, status: int, body: bytes, kind: bytes = b"application/json") -> None:
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
