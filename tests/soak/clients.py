"""The clients of a soak: they call, and hold every reply against what they asked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.soak.faults import Faults
from tests.soak.ledger import Ledger
from tests.soak.work import META, STATELESS_VERSION, VERSION, Message

BOTH = "application/json, text/event-stream"
PATIENCE = 60.0
"""Seconds after which a reply counts as lost."""
SIZES = (0, 0, 0, 10, 300, 4_000, 100_000)
"""Characters that calls carry there and back."""
DELAYS = (0, 0, 0, 0.01, 0.1, 0.5)
"""Seconds that calls take."""
CALLS_A_SESSION = 60


class SoakClient(ABC):
    """One client with a few connections of its own to call."""

    def __init__(
        self,
        name: str,
        http: aiohttp.ClientSession,
        url: str,
        connections: Sequence[str],
        ledger: Ledger,
        faults: Faults,
        chance: random.Random,
    ) -> None:
        self.name = name
        self.url = url
        self.connections = connections
        self.http = http
        self.ledger = ledger
        self.faults = faults
        self.chance = chance
        self.numbers = itertools.count(1)

    @abstractmethod
    async def open(self) -> None:
        """Begin."""

    @abstractmethod
    async def close(self) -> None:
        """Leave."""

    @abstractmethod
    def request(self, method: str, params: Message) -> tuple[Message, dict[str, str]]:
        """A whole request and its headers."""

    async def run(self, pause: float) -> None:
        """Call until cancelled, between two calls. ``pause``: seconds, on average."""
        await asyncio.sleep(self.chance.uniform(0, pause))
        while True:
            for _ in range(self.chance.randint(CALLS_A_SESSION // 2, CALLS_A_SESSION * 2)):
                await asyncio.shield(self.call(self.chance.choice(self.connections)))
                await asyncio.sleep(self.chance.uniform(0, 2 * pause))
            await asyncio.shield(self.renew())

    async def renew(self) -> None:
        """Leave and come back."""
        await self.close()
        await self.open()

    async def call(self, connection: str, *, must_succeed: bool = False) -> None:
        """One call, whose outcome goes into the ledger."""
        number = next(self.numbers)
        token = f"{self.name}.{number}"
        padding = "x" * self.chance.choice(SIZES)
        delay = self.chance.choice(DELAYS)
        arguments = {"token": token, "padding": padding, "delay": delay, "log": isinstance(self, SessionClient)}
        params: Message = {"name": f"{connection}_work", "arguments": arguments}
        if number % 2:
            params["_meta"] = {"progressToken": token}
        message, headers = self.request("tools/call", params)
        start = asyncio.get_running_loop().time()
        self.ledger.calls += 1
        try:
            messages = await self.post(message, headers)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self.ledger.violated(f"{token} to {connection}: no reply: {error!r}")
            return
        self._judge(token, connection, message["id"], padding, messages, start, must_succeed=must_succeed)

    async def post(self, message: Message, headers: dict[str, str]) -> list[Message]:
        """All messages of the answer."""
        async with (
            asyncio.timeout(PATIENCE),
            self.http.post(self.url, data=json.dumps(message).encode(), headers=headers) as response,
        ):
            body = await response.read()
        if response.content_type == "text/event-stream":
            return [json.loads(line[5:]) for line in body.split(b"\n") if line.startswith(b"data:")]
        if response.status not in (200, 202):
            raise ValueError(f"HTTP {response.status}: {body[:200]!r}")
        return [json.loads(body)] if body else []

    def _judge(
        self,
        token: str,
        connection: str,
        request_id: Any,
        padding: str,
        messages: list[Message],
        start: float,
        *,
        must_succeed: bool,
    ) -> None:
        *notices, response = messages or [{}]
        for notice in notices:
            self.noticed(notice, token)
        if response.get("id") != request_id:
            self.ledger.violated(f"{token} to {connection}: answered with {json.dumps(response)[:300]}")
        elif "error" in response:
            self._judge_error(token, connection, response["error"], start, must_succeed=must_succeed)
        else:
            self._judge_result(token, connection, padding, response["result"])

    def _judge_result(self, token: str, connection: str, padding: str, result: Message) -> None:
        receipt = json.loads(result["content"][0]["text"])
        if (receipt["token"], receipt["backend"]) != (token, connection):
            self.ledger.violated(
                f"{token} to {connection}: got the reply to {receipt['token']} of {receipt['backend']}"
            )
        if receipt["checksum"] != zlib.crc32(padding.encode()) or result["structuredContent"]["padding"] != padding:
            self.ledger.violated(f"{token} to {connection}: {len(padding)} characters did not come back as they were")
        if receipt["duplicates"]:
            self.ledger.violated(f"{token} to {connection}: the backend was called twice for one call")
        self.ledger.received(f"{connection}-{receipt['receipt']}", token)

    def _judge_error(self, token: str, connection: str, error: Message, start: float, *, must_succeed: bool) -> None:
        data = error.get("data") or {}
        reason = data.get("reason", f"code {error.get('code')}")
        self.ledger.errors[reason] += 1
        text = f"{token} to {connection}: {error}"
        if must_succeed:
            self.ledger.violated(f"after the faults: {text}")
        elif data.get("connection") != f"default/{connection}" or f"default/{connection}" not in error["message"]:
            self.ledger.violated(f"the error does not name the connection: {text}")
        elif not self.faults.explain(connection, reason, start, asyncio.get_running_loop().time()):
            self.ledger.violated(f"no fault explains the error: {text}")

    def noticed(self, notice: Message, token: str | None = None) -> None:
        """A notification came, for the call with this token if it came with its answer."""
        params = notice.get("params") or {}
        method = notice.get("method")
        if method == "notifications/progress":
            told, named = params["progressToken"], params["message"]
        elif method == "notifications/message":
            told = named = params["data"]
        elif method in ("notifications/tools/list_changed", "notifications/subscriptions/acknowledged"):
            return
        else:
            self.ledger.violated(f"{self.name} was told {json.dumps(notice)[:200]}")
            return
        self.ledger.notices += 1
        mine = told == named == token if token is not None else str(told).startswith(f"{self.name}.")
        if not mine:
            self.ledger.violated(
                f"{self.name}, in {token}, was told what is meant for {told}: {json.dumps(notice)[:200]}"
            )


class SessionClient(SoakClient):
    """A client of 2025-11-25 that listens."""

    session = ""
    _listener: asyncio.Task[None] | None = None

    def request(self, method: str, params: Message) -> tuple[Message, dict[str, str]]:
        return {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}, self.headers()

    def headers(self) -> dict[str, str]:
        headers = {"accept": BOTH, "content-type": "application/json"}
        return headers | ({"mcp-session-id": self.session, "mcp-protocol-version": VERSION} if self.session else {})

    async def open(self) -> None:
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": self.name, "version": "1"}}
        message, headers = self.request("initialize", hello)
        async with self.http.post(self.url, json=message, headers=headers) as response:
            response.raise_for_status()
            self.session = response.headers["mcp-session-id"]
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self.headers())
        self.ledger.sessions += 1
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        headers = self.headers() | {"accept": "text/event-stream"}
        with contextlib.suppress(aiohttp.ClientError):
            async with self.http.get(self.url, headers=headers) as response:
                await self._hear(response)

    async def _hear(self, response: aiohttp.ClientResponse) -> None:
        buffer = b""
        async for chunk in response.content.iter_any():
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    self.noticed(json.loads(line[5:]))

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
        async with self.http.delete(self.url, headers=self.headers()) as response:
            if response.status != 200:
                self.ledger.violated(f"{self.name}: DELETE was answered with HTTP {response.status}")
        self.session = ""


class StatelessClient(SoakClient):
    """A client of 2026-07-28. All of them call themselves the same, so they share what can be shared."""

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """Nor to close."""

    def request(self, method: str, params: Message) -> tuple[Message, dict[str, str]]:
        meta = {
            f"{META}/protocolVersion": STATELESS_VERSION,
            f"{META}/clientInfo": {"name": "soak", "version": "1"},
            f"{META}/clientCapabilities": {},
        }
        params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        headers = {"accept": BOTH, "content-type": "application/json", "mcp-protocol-version": STATELESS_VERSION}
        headers |= {"mcp-method": method, "mcp-name": params["name"]}
        return {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}, headers
