"""A client of the stateless era (2026-07-28) that keeps every byte: aiohttp, and nothing that knows MCP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tests.golden.json_text import dumps
from tests.proxy.client import BOTH, Answer, data_of

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def header_value(text: str) -> str:
    """A value as header lines carry it (basic/transports/streamable-http, Value Encoding)."""
    if _PLAIN.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class StatelessClient:
    """Sends complete requests; one client is one set of capabilities."""

    def __init__(
        self, http: aiohttp.ClientSession, url: str, *, capabilities: dict[str, Any] | None = None, name: str = "raw"
    ) -> None:
        self.http = http
        self.url = url
        self.capabilities = capabilities or {}
        self.name = name
        self._numbers = itertools.count(1)

    def meta(self, **extra: Any) -> dict[str, Any]:
        """The ``_meta`` of a request."""
        return {
            f"{PREFIX}/protocolVersion": VERSION,
            f"{PREFIX}/clientInfo": {"name": self.name, "version": "9"},
            f"{PREFIX}/clientCapabilities": self.capabilities,
            **extra,
        }

    def headers(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        """What a conforming client sends with a request."""
        headers = {"accept": BOTH, "content-type": "application/json", "mcp-protocol-version": VERSION}
        headers["mcp-method"] = method
        if method in NAMED and isinstance(params.get(NAMED[method]), str):
            headers["mcp-name"] = header_value(params[NAMED[method]])
        return headers

    def body(self, method: str, params: dict[str, Any], request_id: Any = None) -> bytes:
        """The text of a request."""
        request_id = next(self._numbers) if request_id is None else request_id
        return dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        meta: dict[str, Any] | None = None,
        request_id: Any = None,
        headers: dict[str, str | None] | None = None,
        log_level: str | None = None,
    ) -> Answer:
        """Send a request and return the whole answer. A header given as None is left out."""
        extra = dict(meta or {}) | ({f"{PREFIX}/logLevel": log_level} if log_level is not None else {})
        params = {**(params or {}), "_meta": self.meta(**extra)}
        lines = {**self.headers(method, params), **(headers or {})}
        return await self.post(self.body(method, params, request_id), {k: v for k, v in lines.items() if v is not None})

    async def call(self, tool: str, arguments: Any = None, *, log_level: str | None = None, **params: Any) -> Answer:
        """Call a tool."""
        return await self.request(
            "tools/call", {"name": tool, "arguments": arguments or {}, **params}, log_level=log_level
        )

    async def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """POST a body as it is."""
        async with self.http.post(self.url, data=body, headers=headers, skip_auto_headers=["content-type"]) as response:
            answer = Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, await response.read())
        if response.content_type == "text/event-stream":
            found = map(data_of, answer.body.split(b"\n\n"))
            answer.messages.extend(message for message in found if message is not None)
        elif answer.body[:1] in (b"{", b"["):
            answer.messages.append(answer.body)
        return answer

    @contextlib.asynccontextmanager
    async def listening(self, request_id: Any = "listen", **notifications: Any) -> AsyncIterator[Listening]:
        """``subscriptions/listen`` with this filter, from its acknowledgement until the context ends."""
        params = {"notifications": notifications, "_meta": self.meta()}
        method = "subscriptions/listen"
        body = self.body(method, params, request_id)
        async with self.http.post(self.url, data=body, headers=self.headers(method, params)) as response:
            listening = Listening(response)
            try:
                yield listening
            finally:
                await listening.aclose()


class Listening:
    """The stream of one subscription."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.messages: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._response = response
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        buffer = b""
        with contextlib.suppress(aiohttp.ClientError):
            async for chunk in self._response.content.iter_any():
                *blocks, buffer = (buffer + chunk).split(b"\n\n")
                self.messages.extend(json.loads(data) for data in map(data_of, blocks) if data is not None)
                self._news.set()

    def of(self, method: str) -> list[dict[str, Any]]:
        """The messages of one method."""
        return [message for message in self.messages if message.get("method") == method]

    async def hear(self, method: str, count: int = 1) -> dict[str, Any]:
        """The ``count``-th message of a method, once it is here."""
        async with asyncio.timeout(20):
            while len(self.of(method)) < count:
                self._news.clear()
                await self._news.wait()
        return self.of(method)[count - 1]

    async def acknowledged(self) -> dict[str, Any]:
        """The filter that was agreed to."""
        message = await self.hear("notifications/subscriptions/acknowledged")
        agreed: dict[str, Any] = message["params"]["notifications"]
        return agreed

    async def ended(self) -> None:
        """Returns once the server has ended the stream."""
        async with asyncio.timeout(20):
            await self._reader

    async def aclose(self) -> None:
        self._reader.cancel()
        await asyncio.wait({self._reader})
        self._response.close()
