"""WebSocket against a real server."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.channel import ChannelError, ProtocolViolation, TimedOut, Unauthorized, Unreachable
from mcp_connections.proxy.channels.websocket import WebSocketChannel
from tests.channels.children import open_files
from tests.channels.remote_bench import RemoteBench, failing
from tests.channels.servers import WebSocketBackend, make_certificate, serve
from tests.channels.wire import Session, ask, eventually, ignore, notification, request


class Bench(RemoteBench[WebSocketBackend, WebSocketChannel]):
    backend_type = WebSocketBackend
    channel_type = WebSocketChannel
    kind = "webSocket"
    place = "ws://*/ws"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        yield Bench(stack)
    gc.collect(1)  # what was not closed shows here rather than in a later test


async def test_messages_go_both_ways(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    assert await ask(channel, 1, text="é") == {"text": "é"}
    await channel.send(notification("notifications/initialized"))
    await backend.sockets[0].send_str('{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
    await session.until(lambda s: s.messages)
    assert session.messages[0]["method"] == "roots/list"
    await eventually(lambda: len(backend.received) == 2)
    assert [message["_type"] for message in backend.received] == ["TEXT", "TEXT"]
    results = await asyncio.gather(*(ask(channel, number, n=number) for number in range(500)))
    assert results == [{"n": number} for number in range(500)]
    await channel.aclose()
    assert backend.closed == [1000]
    assert not session.losses


async def test_the_subprotocol_is_offered_and_headers_are_sent(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel(headers={"Authorization": "Bearer s3cret-token", "X-Tenant": "a"})
    await channel.open()
    headers = backend.headers[0]
    assert headers["Sec-WebSocket-Protocol"] == "mcp"
    assert headers["Authorization"] == "Bearer s3cret-token"
    assert headers["X-Tenant"] == "a"
    assert headers["Host"] == bench.authority
    assert "Origin" not in headers


@pytest.mark.parametrize("protocols", [(), ("other",)])
async def test_a_server_that_does_not_speak_the_subprotocol_is_refused(
    bench: Bench, protocols: tuple[str, ...]
) -> None:
    backend = await bench.start(protocols=protocols)
    await failing(bench.channel(), ProtocolViolation, "subprotocol 'mcp'")
    await eventually(lambda: backend.closed)


async def test_binary_frames_are_read_too(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    await channel.open()
    assert await ask(channel, 1, "binary", text="é") == {"text": "é"}


async def test_bytes_that_are_no_utf8_are_replaced(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    await channel.open()
    text = '{"jsonrpc":"2.0","id":1,"result":{"text":"\xff\xfe"}}'
    message = await channel.exchange(1, request(1, "raw", text=text), ignore)
    assert bytes(message["result"]) == '{"text":"\ufffd\ufffd"}'.encode()


async def test_a_message_that_is_no_utf8_is_refused_before_it_costs_the_connection(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    with pytest.raises(ProtocolViolation, match="not UTF-8") as caught:
        await channel.exchange(1, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', ignore)
    assert not caught.value.executed
    assert await ask(channel, 2, n=2) == {"n": 2}
    assert not session.losses


async def test_large_frames_go_both_ways(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    await channel.open()
    assert len((await ask(channel, 1, "big", size=17 * 1024 * 1024))["text"]) == 17 * 1024 * 1024
    assert len((await ask(channel, 2, text="y" * 17 * 1024 * 1024))["text"]) == 17 * 1024 * 1024


async def test_a_frame_as_large_as_the_limit_is_read(bench: Bench) -> None:
    await bench.start()
    frame = len(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "z" * 50_000}}))
    channel = bench.channel(limit=frame)
    await channel.open()
    assert len((await ask(channel, 1, "big", size=50_000))["text"]) == 50_000


async def test_a_frame_over_the_limit_is_a_loss_that_names_the_limit(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel(limit=100_000)
    session = Session(channel)
    await channel.open()
    with pytest.raises(ProtocolViolation, match=r"connection team/tools: .*100000 bytes, the limit"):
        await ask(channel, 1, "big", size=200_000)
    assert len(session.losses) == 1
    await eventually(lambda: backend.closed == [1009])


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (1012, "", "close code 1012, service restart"),
        (1001, "bye", r"close code 1001, going away\): bye"),
        (1008, "token s3cret-token is bad", r"policy violation\): token \[redacted\] is bad"),
        (4000, "", "close code 4000"),
    ],
)
async def test_a_close_in_the_middle_of_a_call_is_told_at_once(bench: Bench, code: int, reason: str, text: str) -> None:
    await bench.start()
    channel = bench.channel(headers={"X-Key": "s3cret-token"})
    session = Session(channel)
    await channel.open()
    waiting = asyncio.create_task(ask(channel, 1, "silent"))
    with pytest.raises(Unreachable, match=text) as caught:
        await ask(channel, 2, "close", code=code, reason=reason)
    assert caught.value.executed
    with pytest.raises(Unreachable, match=text):
        await waiting
    assert len(session.losses) == 1
    with pytest.raises(Unreachable, match=text) as caught:
        await ask(channel, 3)
    assert not caught.value.executed
    again = bench.channel()
    await again.open()
    assert await ask(again, 1, n=1) == {"n": 1}


async def test_a_broken_connection_is_told_at_once(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    with pytest.raises(Unreachable, match="without a close frame"):
        await ask(channel, 1, "cut")
    assert len(session.losses) == 1


async def test_a_peer_that_does_not_answer_pings_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebSocketChannel, "heartbeat_seconds", 0.2)
    await bench.start(autoping=False)
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    with pytest.raises(TimedOut, match="did not answer a ping"):
        await ask(channel, 1, "silent")
    assert len(session.losses) == 1


async def test_a_peer_that_answers_pings_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebSocketChannel, "heartbeat_seconds", 0.5)
    await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    await asyncio.sleep(1.2)
    assert await ask(channel, 1, n=1) == {"n": 1}
    assert not session.losses


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/refused?status=401&k=s3cret-token", Unauthorized, "HTTP 401"),
        ("/refused?status=403", Unauthorized, "HTTP 403"),
        ("/refused?status=404", Unreachable, "HTTP 404.*check the path"),
        ("/refused?status=503", Unreachable, "HTTP 503"),
        ("/refused?status=426", ProtocolViolation, "HTTP 426"),
        ("/plain", ProtocolViolation, "HTTP 200 instead of a WebSocket handshake"),
        ("/away", Unreachable, "redirects to http://127.0.0.2:1/ws"),
    ],
)
async def test_a_handshake_that_fails_says_why(bench: Bench, path: str, kind: type[ChannelError], text: str) -> None:
    await bench.start()
    with pytest.raises(kind, match=text) as caught:
        await bench.channel(path).open()
    assert type(caught.value) is kind
    assert f"ws://{bench.authority}{path.partition('?')[0]}:" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_closed_port_is_told(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    channel = bench.channel(url=f"ws://127.0.0.1:{port}/ws")
    await failing(channel, Unreachable, f"ws://127.0.0.1:{port}/ws: cannot connect: .*refused")


async def test_a_server_that_never_answers_is_given_up(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        channel = bench.channel(url=f"ws://127.0.0.1:{listener.getsockname()[1]}/ws", timeout=0.2)
        await failing(channel, TimedOut, r"not ready within 0\.2 s")


async def test_frames_that_are_no_messages_are_skipped(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    for text in ("hello", "[]", '{"a":1}', ""):
        await backend.sockets[0].send_str(text)
    assert await ask(channel, 1, n=1) == {"n": 1}
    assert channel.skipped == 4
    assert not session.messages


async def test_a_peer_that_does_not_read_blocks_nobody_else_and_is_closed_for_real(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WebSocketChannel, "write_seconds", 0.3)
    await bench.start()
    stop = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            + accept_key(key.partition(b":")[2].strip())
            + b"\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await stop.wait()
        writer.transport.abort()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    async with server:
        files = open_files()
        channel, well = bench.channel(url=f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"), bench.channel()
        await channel.open()
        await well.open()
        with pytest.raises(TimedOut, match="does not read") as caught:
            await channel.send(notification("x", text="x" * 20_000_000))
        assert caught.value.executed
        waiting = asyncio.create_task(ask(channel, 1))
        assert await ask(well, 1, n=1) == {"n": 1}
        assert not waiting.done()
        await channel.aclose()
        await well.aclose()
        with pytest.raises(Unreachable, match="the proxy closed this session"):
            await waiting
        await eventually(lambda: open_files() <= files + 1)  # the deaf peer's own end
        stop.set()


def accept_key(key: bytes) -> bytes:
    """RFC 6455, section 4.2.2."""
    return base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324


async def test_closing_fails_what_waits_and_closes_the_socket(bench: Bench) -> None:
    await bench.start()
    files = open_files()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    exchange = asyncio.create_task(ask(channel, 1, "silent"))
    await asyncio.sleep(0.01)
    await asyncio.gather(channel.aclose(), channel.aclose())
    with pytest.raises(Unreachable, match="the proxy closed this session"):
        await exchange
    assert not session.losses
    await eventually(lambda: open_files() <= files)


@pytest.mark.parametrize("how", ["cancel", "close", "both"])
async def test_an_attempt_that_ends_at_any_point_leaves_nothing(bench: Bench, how: str) -> None:
    await bench.start()
    first = bench.channel()
    await first.open()
    await first.aclose()
    files = open_files()
    for moment in range(20):
        channel = bench.channel()
        opening = asyncio.create_task(channel.open())
        await asyncio.sleep(moment * 0.0004)
        if how != "close":
            opening.cancel()
        if how != "cancel":
            await channel.aclose()
        await asyncio.gather(opening, return_exceptions=True)
        await channel.aclose()
    await eventually(lambda: open_files() <= files)


async def test_exchanges_cancelled_around_their_answer(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    for number in range(200):
        exchange = asyncio.create_task(ask(channel, number, n=number))
        await asyncio.sleep(number % 20 * 0.00005)
        exchange.cancel()
        await asyncio.wait({exchange})
    assert not channel._pending  # noqa: SLF001
    assert await ask(channel, 1000, n=1) == {"n": 1}
    assert not session.losses


async def test_a_redirect_within_the_origin_is_followed(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel(url=f"http://{bench.authority}/moved")
    await channel.open()
    assert await ask(channel, 1, n=1) == {"n": 1}


async def test_tls_with_a_ca_bundle(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with AsyncExitStack() as stack:
        authority = await serve(stack, WebSocketBackend().routes(), certificate.server)

        def channel(ca_bundle: str | None) -> WebSocketChannel:
            server = HttpServer(kind="webSocket", url=f"wss://{authority}/ws", ca_bundle=ca_bundle)
            made = WebSocketChannel(server, connection="team/tools", connect_timeout=20.0)
            stack.push_async_callback(made.aclose)
            return made

        trusting = channel(certificate.authority)
        await trusting.open()
        assert await ask(trusting, 1, n=1) == {"n": 1}
        await failing(channel(None), Unreachable, "certificate is not trusted: .*CA bundle")
