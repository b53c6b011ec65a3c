"""A client of the endpoint that keeps every byte: aiohttp, and nothing that knows MCP.

It does what a conforming client does (Accept, session and version headers, one GET stream), so that a test states only
what it is about.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

VERSION = "2025-11-25"
BOTH = "application/json, text/event-stream"

Answerer = Callable[[dict[str, Any]], Awaitable[Any]]
"""Answers a request of a backend: gets the message, returns the result, or raises Declined."""


class Declined(Exception):
    """The client answers a backend's request with an error."""


@dataclass
class Answer:
    """The HTTP response to one POST."""

    status: int
    headers: dict[str, str]
    body: bytes
    """All of it, as it came."""
    messages: list[bytes] = field(default_factory=list)
    """The JSON-RPC messages in it, in order, as they came."""

    @property
    def response(self) -> dict[str, Any]:
        """The JSON-RPC response, decoded."""
        decoded: dict[str, Any] = json.loads(self.messages[-1])
        return decoded

    @property
    def result(self) -> Any:
        assert "result" in self.response, self.response
        return self.response["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.response, self.response
        error: dict[str, Any] = self.response["error"]
        return error

    @property
    def text(self) -> str:
        """The text of a tool's first content block."""
        text: str = self.result["content"][0]["text"]
        return text

    def raw(self, member: str = "result") -> bytes:
        """The bytes of a member of the response."""
        return bytes(msgspec.json.decode(self.messages[-1], type=dict[str, msgspec.Raw])[member])

    @property
    def notifications(self) -> list[dict[str, Any]]:
        """What came ahead of the response."""
        return [json.loads(message) for message in self.messages[:-1]]


class Client:
    """One MCP session with the endpoint, once ``initialize`` was called."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url
        self.session_id: str | None = None
        self.version = VERSION
        self.heard: list[dict[str, Any]] = []
        """What came on the GET stream."""
        self.streamed: list[dict[str, Any]] = []
        """What came on the streams of requests, their responses too."""
        self.answerers: dict[str, Answerer] = {}
        """How requests of backends are answered, by method."""
        self.asked: list[dict[str, Any]] = []
        """Requests of backends, in order."""
        self._news = asyncio.Event()
        self._numbers = itertools.count(1)
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # sessions

    async def initialize(
        self, *, version: str = VERSION, capabilities: dict[str, Any] | None = None, name: str = "raw-client"
    ) -> Answer:
        """Shake hands, ``notifications/initialized`` included."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": name, "version": "9"},
        }
        answer = await self.request("initialize", params)
        self.session_id = answer.headers["mcp-session-id"]
        self.version = answer.result["protocolVersion"]
        await self.notify("notifications/initialized")
        return answer

    def headers(self, **extra: str) -> dict[str, str]:
        """What a conforming client sends with every request."""
        headers = {"accept": BOTH, "content-type": "application/json"}
        if self.session_id is not None:
            headers |= {"mcp-session-id": self.session_id, "mcp-protocol-version": self.version}
        return headers | extra

    async def delete(self) -> int:
        """End the session."""
        await self.unlisten()
        async with self.http.delete(self.url, headers=self.headers()) as response:
            return response.status

    async def aclose(self) -> None:
        """Stop listening and answering; the session stays."""
        await self.unlisten()
        for task in tuple(self._tasks):
            task.cancel()
            await asyncio.wait({task})

    # messages out

    async def request(self, method: str, params: Any = None, *, request_id: Any = None, **headers: str) -> Answer:
        """Send a request, answer what the backend asks meanwhile, and return the whole answer. ``params`` and
        ``request_id`` may be raw JSON."""
        request_id = next(self._numbers) if request_id is None else request_id
        members = [b'"jsonrpc":"2.0"', b'"id":%s' % _raw(request_id), b'"method":%s' % _raw(method)]
        if params is not None:
            members.append(b'"params":%s' % _raw(params))
        return await self.post(b"{%s}" % b",".join(members), **headers)

    async def call(self, tool: str, arguments: Any = None, **params: Any) -> Answer:
        """Call a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}, **params})

    async def names(self, method: str = "tools/list") -> list[str]:
        """The public names or URIs in a list."""
        result = (await self.request(method)).result
        (items,) = (value for value in result.values() if isinstance(value, list))
        return [item.get("name") if "uri" not in item else item["uri"] for item in items]

    async def notify(self, method: str, params: Any = None) -> int:
        """Send a notification; the HTTP status."""
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        return (await self.post(json.dumps(message).encode())).status

    async def post(self, body: bytes, **headers: str) -> Answer:
        """POST ``body`` as it is. A header named with underscores is sent with hyphens; an empty one is left out."""
        lines = self.headers() | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = {name: value for name, value in lines.items() if value}
        data = io.BytesIO(body)  # aiohttp warns of large bytes
        async with self.http.post(self.url, data=data, headers=lines, skip_auto_headers=["content-type"]) as response:
            answer = Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, b"")
            if response.content_type == "text/event-stream":
                await self._read_events(response, answer)
            else:
                answer.body = await response.read()
                if answer.body[:1] in (b"{", b"["):
                    answer.messages.append(answer.body)
            return answer

    async def _read_events(self, response: aiohttp.ClientResponse, answer: Answer) -> None:
        chunks = []
        buffer = b""
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            *blocks, buffer = (buffer + chunk).split(b"\n\n")
            for message in map(data_of, blocks):
                if message is not None:
                    answer.messages.append(message)
                    self.streamed.append(json.loads(message))
                    self._news.set()
                    self._asked(message)
        answer.body = b"".join(chunks)

    # messages in

    async def listen(self) -> None:
        """Open the GET stream and keep reading it."""
        response = await self.http.get(self.url, headers=self.headers(accept="text/event-stream"))
        assert response.status == 200, await response.text()
        self._listening = asyncio.create_task(self._hear(response))

    async def _hear(self, response: aiohttp.ClientResponse) -> None:
        buffer = b""
        try:
            async for chunk in response.content.iter_any():
                *blocks, buffer = (buffer + chunk).split(b"\n\n")
                for message in map(data_of, blocks):
                    if message is not None:
                        self.heard.append(json.loads(message))
                        self._asked(message)
                self._news.set()
        except aiohttp.ClientError:
            pass
        finally:
            response.close()

    async def unlisten(self) -> None:
        """Close the GET stream."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
            self._listening = None

    @property
    def listening(self) -> bool:
        """Whether the GET stream is open as far as this side knows."""
        return self._listening is not None and not self._listening.done()

    async def until_stream_ends(self) -> None:
        assert self._listening is not None
        async with asyncio.timeout(20):
            await self._listening

    def heard_of(self, method: str) -> list[dict[str, Any]]:
        """Messages of one method that came on the GET stream."""
        return [message for message in self.heard if message.get("method") == method]

    async def hear(self, method: str, count: int = 1) -> dict[str, Any]:
        """The ``count``-th message of a method on the GET stream, once it is here."""
        await self._until(lambda: len(self.heard_of(method)) >= count)
        return self.heard_of(method)[count - 1]

    async def until_streamed(self, method: str, count: int = 1) -> None:
        """Wait for the ``count``-th message of a method on the streams of requests."""
        await self._until(lambda: sum(each.get("method") == method for each in self.streamed) >= count)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _asked(self, message: bytes) -> None:
        decoded = json.loads(message)
        if "method" in decoded and "id" in decoded:
            self.asked.append(decoded)
            answerer = self.answerers.get(decoded["method"])
            if answerer is not None:
                task = asyncio.create_task(self._answer(answerer, decoded))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, answerer: Answerer, message: dict[str, Any]) -> None:
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            response["result"] = await answerer(message)
        except Declined as declined:
            response["error"] = {"code": -1, "message": str(declined)}
        await self.post(json.dumps(response).encode())


def data_of(block: bytes) -> bytes | None:
    """The data of one server-sent event; None for a comment."""
    lines = [line.removeprefix(b"data:").removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()
