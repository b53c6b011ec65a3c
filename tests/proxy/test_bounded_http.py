"""The sockets of clients: what may be sent, and how long that may take, before anybody is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from mcp_connections.proxy.downstream import request_body
from mcp_connections.proxy.process import ProxyProcess
from mcp_connections.proxy.server import bounded_http, listening
from mcp_connections.proxy.server.listening import bind

PING = b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}'
HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Peer:
    """A client that sends the very bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.writer.write(chunk)
            await self.writer.drain()

    async def everything(self) -> bytes:
        """All that comes until the other side closes."""
        async with asyncio.timeout(30):
            return await self.reader.read()

    async def until(self, end: bytes) -> bytes:
        async with asyncio.timeout(30):
            return await self.reader.readuntil(end)


@pytest.fixture
async def address() -> AsyncIterator[int]:
    """The port of a proxy process with nothing mounted."""
    process = ProxyProcess(host="127.0.0.1")
    listener = bind("127.0.0.1", 0, "--port")
    async with process.serve(listener, drain_seconds=1):
        yield listener.getsockname()[1]


@contextlib.asynccontextmanager
async def peer(port: int) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "start", [b"GET /", b"GET / HTTP/1.1\r\nx: ", HEAD + b"transfer-encoding: chunked\r\n\r\n1;x="]
)
@pytest.mark.parametrize("filler", [b"y" * 1000, b"y\r\nx: " * 200])
async def test_a_head_without_end_is_cut_off(address: int, start: bytes, filler: bytes) -> None:
    async with peer(address) as client:
        sent = 0
        with contextlib.suppress(ConnectionError):
            await client.send(start)
            while sent < 50 * bounded_http.MAX_HEAD_BYTES and not client.reader.at_eof():
                await client.send(filler)
                await asyncio.sleep(0)
                sent += len(filler)
        assert sent < 50 * bounded_http.MAX_HEAD_BYTES


async def test_a_head_that_is_too_large_is_431(address: int) -> None:
    async with peer(address) as client:
        start = b"GET /healthz HTTP/1.1\r\nx: "
        await client.send(start + b"y" * (bounded_http.MAX_HEAD_BYTES + 1 - len(start)))
        assert (await client.everything()).startswith(b"HTTP/1.1 431 ")


async def test_trailers_without_end_are_cut_off(address: int) -> None:
    async with peer(address) as client:
        sent = 0
        with contextlib.suppress(ConnectionError):
            await client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n")
            while sent < 50 * bounded_http.MAX_HEAD_BYTES and not client.reader.at_eof():
                await client.send(b"x: " + b"y" * 1000 + b"\r\n")
                await asyncio.sleep(0)
                sent += 1005
        assert sent < 50 * bounded_http.MAX_HEAD_BYTES


async def test_a_body_in_many_small_chunks_is_read(address: int) -> None:
    spaces = b"".join(b"1\r\n \r\n" for _ in range(40_000))  # six bytes of framing for each of the body
    async with peer(address) as client:
        await client.send(HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n", spaces)
        await client.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(PING), PING))
        assert (await client.everything()).startswith(b"HTTP/1.1 400 ")  # read, and found to lack a version


async def test_slow_heads_and_silent_clients_are_closed(address: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_SECONDS", 0.1)
    async with peer(address) as slow:
        await slow.send(b"GET /healthz HTTP/1.1\r\n")
        assert (await slow.everything()).startswith(b"HTTP/1.1 408 ")
    async with peer(address) as next_one:
        await next_one.send(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert await next_one.until(b"}") != b""
        await next_one.send(b"GET /heal")
        assert (await next_one.everything()).startswith(b"HTTP/1.1 408 ")


async def test_silent_clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "KEEP_ALIVE_SECONDS", 0.1)
    process = ProxyProcess(host="127.0.0.1")
    listener = bind("127.0.0.1", 0, "--port")
    async with process.serve(listener, drain_seconds=1), peer(listener.getsockname()[1]) as silent:
        assert await silent.everything() == b""


async def test_slow_bodies_are_408(address: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.1)
    async with peer(address) as client:
        await client.send(HEAD + b"content-length: 100\r\n\r\n{")
        answer = await client.everything()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"].startswith("the request body")


async def test_a_call_takes_longer_than_its_head_may(address: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_SECONDS", 0.1)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
    async with peer(address) as client:
        await client.send(HEAD + b"content-length: %d\r\n\r\n%s" % (len(body), body))
        head = await client.until(b"\r\n\r\n")
        (session,) = [line for line in head.split(b"\r\n") if line.startswith(b"mcp-session-id:")]
    async with peer(address) as client:
        accept = b"accept: text/event-stream\r\n"
        await client.send(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n" + accept + session + b"\r\n\r\n")
        await client.until(b": ping\n\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.reader.read()


OFFER = HEAD + b"connection: upgrade\r\nupgrade: h2c\r\n"
HIDDEN = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
BODY = b"content-length: %d\r\n\r\n" % len(HIDDEN)


@pytest.mark.parametrize("cut", range(len(HEAD) - 1, len(OFFER) + len(BODY)))
async def test_wherever_a_head_is_cut_an_offer_does_not_set_its_body_free(address: int, cut: int) -> None:
    whole = OFFER + BODY
    async with peer(address) as client:
        await client.send(whole[:cut])
        await asyncio.sleep(0.01)  # a segment of its own
        await client.send(whole[cut:] + HIDDEN)
        head = await client.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"not a JSON-RPC message" in await client.until(b"}}")
        await client.send(HIDDEN)
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 "), "the connection goes on"


@pytest.mark.parametrize(
    "start",
    [
        HEAD + b"content-length: 2\r\n\r\n{}" + OFFER + BODY,
        b"CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\n" + BODY,
        b"CONNECT /mcp HTTP/1.1\r\nhost: localhost\r\n" + BODY,
    ],
)
async def test_where_a_body_cannot_be_told_from_a_request_the_connection_ends(address: int, start: bytes) -> None:
    async with peer(address) as client:
        with contextlib.suppress(ConnectionError):
            await client.send(start)
            await asyncio.sleep(0.01)
            await client.send(HIDDEN)
        with contextlib.suppress(ConnectionError):
            assert b"status" not in await client.everything()


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
async def test_an_offer_of_another_protocol_is_ignored(address: int, name: bytes) -> None:
    """As the HTTP client of Java makes it with every request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\n%s: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n" % name
    async with peer(address) as client:
        for _ in range(2):  # the connection goes on
            await client.send(HEAD + offer + b"content-length: 4\r\n\r\n\nup!")
            head = await client.until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 ")
            assert b"invalid character" in await client.until(b"}}")
