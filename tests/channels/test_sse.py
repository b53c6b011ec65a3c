"""Legacy HTTP with SSE against a real server."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.channel import (
    ChannelError,
    ProtocolViolation,
    SessionLost,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from mcp_connections.proxy.channels.sse import SseChannel
from tests.channels.children import open_files
from tests.channels.remote_bench import RemoteBench, failing
from tests.channels.servers import SseBackend, make_certificate, serve
from tests.channels.wire import Session, ask, eventually, ignore, notification, request


class Bench(RemoteBench[SseBackend, SseChannel]):
    backend_type = SseBackend
    channel_type = SseChannel
    kind = "sse"
    place = "http://*/sse"


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
    assert await ask(channel, 1, n=1) == {"n": 1}
    await channel.send(notification("notifications/initialized"))
    backend.say({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
    backend.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await session.until(lambda s: len(s.messages) == 2)
    assert [message["method"] for message in session.messages] == ["roots/list", "notifications/tools/list_changed"]
    assert [post["method"] for post in backend.posts] == ["echo", "notifications/initialized"]
    assert {post["query"] for post in backend.posts} == {"session_id=s1"}
    results = await asyncio.gather(*(ask(channel, number, n=number) for number in range(10, 210)))
    assert results == [{"n": number} for number in range(10, 210)]
    await channel.aclose()
    assert not session.losses


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_any_success_accepts_a_message(bench: Bench, status: int) -> None:
    await bench.start(post_status=status)
    channel = bench.channel()
    await channel.open()
    assert await ask(channel, 1, n=1) == {"n": 1}
    await channel.send(notification("x"))


async def test_configured_headers_are_sent_on_both(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel(headers={"Authorization": "Bearer s3cret-token", "X-Tenant": "a", "accept": "text/html"})
    await channel.open()
    await ask(channel, 1)
    (_, on_get), (_, on_post) = backend.headers
    for headers in (on_get, on_post):
        assert headers["Authorization"] == "Bearer s3cret-token"
        assert headers["X-Tenant"] == "a"
        assert headers["Host"] == bench.authority
        assert headers["Accept-Encoding"] == "identity"
        assert headers["User-Agent"].startswith("mcp-connections/")
        assert "Origin" not in headers
        assert "Cookie" not in headers
    assert on_get["Accept"] == "text/event-stream"
    assert on_post["Content-Type"] == "application/json"


async def test_messages_carry_the_cookies_of_the_stream(bench: Bench) -> None:
    backend = await bench.start(cookies=("AWSALB", "AWSALBCORS"))
    port = bench.authority.rpartition(":")[2]
    channel = bench.channel(url=f"http://localhost:{port}/sse", headers={"Cookie": "own=1"})
    await channel.open()
    await ask(channel, 1)
    await channel.send(notification("x"))
    cookies = [headers.get("Cookie") for _, headers in backend.headers]
    assert cookies == ["own=1", *(f"own=1; AWSALB={number}; AWSALBCORS={number}" for number in (1, 2))]


async def test_a_message_is_accepted_by_the_status_alone(bench: Bench) -> None:
    await bench.start(unfinished=True)
    channel = bench.channel()
    await channel.open()
    await channel.send(notification("notifications/initialized"))
    assert await ask(channel, 1, n=1) == {"n": 1}


async def test_the_protocol_version_is_told_once_it_is_agreed(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    await channel.open()
    await ask(channel, 1)
    channel.negotiated("2025-06-18")
    await ask(channel, 2)
    assert [headers.get("MCP-Protocol-Version") for _, headers in backend.headers] == [None, None, "2025-06-18"]


async def test_credentials_in_the_url_are_a_header_and_show_nowhere(bench: Bench) -> None:
    backend = await bench.start(get_status=401)
    channel = bench.channel(url=f"http://user:p%40ssword-1@{bench.authority}/sse?key=s3cret-token")
    fault = await failing(channel, Unauthorized, r"HTTP 401: no: token \[redacted\] is bad")
    assert backend.headers[0][1]["Authorization"] == "Basic dXNlcjpwQHNzd29yZC0x"
    for secret in ("user", "p@ssword", "p%40ssword", "s3cret"):
        assert secret not in str(fault)
    assert f"http://{bench.authority}/sse:" in str(fault)


@pytest.mark.parametrize(
    ("prefix", "endpoint", "path", "query"),
    [
        ("/gw/v1", "messages?session_id=1", "/gw/v1/messages", "session_id=1"),
        ("", "messages", "/messages", ""),
        ("/gw", "./messages?a=b%2Fc", "/gw/messages", "a=b%2Fc"),
        ("", "/messages?id=a:b%3Ac~%7E#part", "/messages", "id=a:b%3Ac~%7E"),
        ("", "//{authority}/messages", "/messages", ""),
        ("", "http://{authority}/messages?x", "/messages", "x"),
        ("", "HTTP://{authority}/messages", "/messages", ""),
        ("", "http://user:pw@{authority}/messages", "/messages", ""),
        ("", "  /messages?q=a b  ", "/messages", "q=a+b"),
    ],
)
async def test_the_endpoint_is_resolved_against_the_stream(
    bench: Bench, prefix: str, endpoint: str, path: str, query: str
) -> None:
    backend = SseBackend(prefix=prefix)
    bench.authority = await serve(bench.stack, backend.routes())
    backend.endpoint = endpoint.format(authority=bench.authority)
    channel = bench.channel(f"{prefix}/sse")
    await channel.open()
    await ask(channel, 1)
    assert backend.posts[0]["path"] == path
    assert backend.posts[0]["query"] in (query, query.replace("+", "%20"))


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.2:1/messages", "//evil.example/messages", "https://{authority}/messages", "file:///etc/passwd"],
)
async def test_an_endpoint_at_another_origin_is_refused(bench: Bench, endpoint: str) -> None:
    backend = await bench.start()
    backend.endpoint = endpoint.format(authority=bench.authority)
    await failing(bench.channel(), ProtocolViolation, "another origin|no URL")


@pytest.mark.parametrize("endpoint", ["http://[::1/messages", "http://127.0.0.1:99999999/x"])
async def test_an_endpoint_that_is_no_url_is_refused(bench: Bench, endpoint: str) -> None:
    await bench.start(endpoint=endpoint)
    await failing(bench.channel(), ProtocolViolation, "no URL|another origin")


async def test_redirects_within_the_origin_are_followed_with_body_and_headers(bench: Bench) -> None:
    backend = await bench.start(endpoint="/moved-messages?session_id=s1")
    channel = bench.channel("/moved", headers={"X-Key": "s3cret-token"})
    await channel.open()
    text = "x" * 3_000_000
    assert await ask(channel, 1, text=text) == {"text": text}
    assert backend.posts[0]["query"] == "session_id=s1"
    assert [headers["X-Key"] for _, headers in backend.headers] == ["s3cret-token"] * 2


@pytest.mark.parametrize(("path", "text"), [("/away", "redirects to http://127.0.0.2:1/sse"), ("/loop", "in circles")])
async def test_other_redirects_of_the_stream_are_refused(bench: Bench, path: str, text: str) -> None:
    await bench.start()
    await failing(bench.channel(path), Unreachable, text)


@pytest.mark.parametrize("endpoint", ["/away-messages", "/see-other"])
async def test_other_redirects_of_a_message_are_refused(bench: Bench, endpoint: str) -> None:
    backend = await bench.start(endpoint=endpoint)
    channel = bench.channel()
    await channel.open()
    with pytest.raises(Unreachable, match="redirects to") as caught:
        await ask(channel, 1)
    assert not caught.value.executed
    assert not backend.posts


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Unauthorized),
        (403, Unauthorized),
        (404, Unreachable),
        (405, Unreachable),
        (429, Unreachable),
        (503, Unreachable),
        (400, ProtocolViolation),
        (204, ProtocolViolation),
    ],
)
async def test_the_status_of_the_stream(bench: Bench, status: int, kind: type[ChannelError]) -> None:
    await bench.start(get_status=status)
    with pytest.raises(kind, match=f"http://{bench.authority}/sse: .*HTTP {status}") as caught:
        await bench.channel().open()
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "kind", "executed"),
    [
        (401, Unauthorized, False),
        (403, Unauthorized, False),
        (404, SessionLost, False),
        (429, Unreachable, False),
        (500, Unreachable, True),
        (503, Unreachable, True),
        (400, ProtocolViolation, False),
    ],
)
async def test_the_status_of_a_message(bench: Bench, status: int, kind: type[ChannelError], executed: bool) -> None:
    backend = await bench.start(post_status=status)
    channel = bench.channel(headers={"Authorization": "Bearer s3cret-token"})
    session = Session(channel)
    await channel.open()
    for attempt in (channel.exchange(1, request(1), ignore), channel.send(notification("x"))):
        with pytest.raises(kind, match=f"HTTP {status}") as caught:
            await attempt
        assert type(caught.value) is kind
        assert caught.value.executed is executed
        assert "s3cret" not in str(caught.value)
    backend.post_status = 202
    assert await ask(channel, 2, n=2) == {"n": 2}
    assert not session.losses


async def test_a_stream_that_is_no_event_stream_says_what_to_check(bench: Bench) -> None:
    await bench.start(content_type="text/html")
    await failing(bench.channel(), ProtocolViolation, r"answers with text/html.*transport.http")


async def test_the_content_type_may_be_in_capitals(bench: Bench) -> None:
    await bench.start(content_type="Text/Event-Stream; Charset=UTF-8")
    channel = bench.channel()
    await channel.open()
    assert await ask(channel, 1, n=1) == {"n": 1}


async def test_a_stream_without_endpoint_is_given_up(bench: Bench) -> None:
    await bench.start(endpoint="")
    await failing(bench.channel(timeout=0.2), TimedOut, r"not ready within 0\.2 s")


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = HttpServer(kind="sse", url=f"http://127.0.0.1:{listener.getsockname()[1]}/sse")
        channel = SseChannel(server, connection="team/tools", connect_timeout=0.2)
        await failing(channel, TimedOut, "not ready within")


async def test_a_closed_port_is_told(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    channel = bench.channel(url=f"http://127.0.0.1:{port}/sse?key=s3cret-token")
    fault = await failing(
        channel, Unreachable, f"http://127.0.0.1:{port}/sse: cannot connect: .*refused; check that it is up"
    )
    assert "s3cret" not in str(fault)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://no-such-host.invalid/sse", "cannot be resolved|cannot connect"),
        ("http://[::1/sse", "not usable"),
        ("/sse", "not usable"),
        ("ftp://host/sse", "not usable"),
    ],
)
async def test_a_wrong_url_is_told(bench: Bench, url: str, text: str) -> None:
    await failing(bench.channel(url=url), Unreachable, text)


async def test_a_header_with_a_line_break_is_told_without_its_value(bench: Bench) -> None:
    await bench.start()
    fault = await failing(bench.channel(headers={"X-Key": "s3cret\r\nX-Evil: 1"}), Unreachable, "header 'X-Key' holds")
    assert "s3cret" not in str(fault)
    assert not bench.backend.headers


async def test_the_end_of_the_stream_is_a_loss(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    exchange = asyncio.create_task(ask(channel, 1, "silent"))
    await eventually(lambda: backend.posts)
    backend.raw(None)
    with pytest.raises(Unreachable, match="ended the event stream") as caught:
        await exchange
    assert caught.value.executed
    assert len(session.losses) == 1
    with pytest.raises(Unreachable, match="ended the event stream") as caught:
        await ask(channel, 2)
    assert not caught.value.executed


async def test_a_server_that_goes_away_is_a_loss() -> None:
    async with AsyncExitStack() as stack:
        backend = SseBackend()
        authority = await serve(stack, backend.routes())
        channel = SseChannel(
            HttpServer(kind="sse", url=f"http://{authority}/sse"), connection="team/tools", connect_timeout=20.0
        )
        session = Session(channel)
        await channel.open()
        await stack.aclose()
        await session.until(lambda s: s.losses)
        assert isinstance(session.losses[0], Unreachable)
        await channel.aclose()


async def test_a_compressed_stream_is_decoded_as_it_comes(bench: Bench) -> None:
    await bench.start(gzip=True)
    channel = bench.channel()
    await channel.open()
    assert await ask(channel, 1, text="é" * 100_000) == {"text": "é" * 100_000}
    assert await ask(channel, 2, n=2) == {"n": 2}


async def test_an_event_may_be_large_and_come_in_any_pieces(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    await channel.open()
    assert len((await ask(channel, 1, text="z" * 3_000_000))["text"]) == 3_000_000
    exchange = asyncio.create_task(ask(channel, 2, "silent"))
    await eventually(lambda: len(backend.posts) == 2)
    message = json.dumps({"jsonrpc": "2.0", "id": 2, "result": "ok"}).encode()
    for piece in (b": comment\r\n\r\nid: 7\r\nda", b"ta: " + message[:9], message[9:], b"\r", b"\n\r\n"):
        backend.raw(piece)
        await asyncio.sleep(0.01)
    assert await exchange == "ok"


async def test_an_event_over_the_limit_is_a_loss_that_names_the_limit(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel(limit=100_000)
    session = Session(channel)
    await channel.open()
    with pytest.raises(ProtocolViolation, match=r"connection team/tools: .*100000 bytes, the limit"):
        await ask(channel, 1, text="z" * 200_000)
    assert len(session.losses) == 1


async def test_events_that_are_no_messages_are_skipped(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    backend.raw(b"event: ping\ndata: 2026-01-01\n\n: ping\n\nid: 1\ndata:\n\ndata: not json\n\n")
    backend.raw(b"event: endpoint\ndata: http://evil.example/\n\n")
    assert await ask(channel, 1, n=1) == {"n": 1}
    assert channel.skipped == 1
    assert not session.messages
    assert not session.losses


async def test_an_answer_may_come_before_its_post_is_accepted(bench: Bench) -> None:
    backend = await bench.start(answer_first=True)
    backend.accept.clear()
    channel = bench.channel()
    await channel.open()
    assert await ask(channel, 1, n=1) == {"n": 1}
    backend.accept.set()
    assert await ask(channel, 2, n=2) == {"n": 2}


async def test_a_notification_that_is_never_accepted_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SseChannel, "post_seconds", 0.2)
    backend = await bench.start()
    backend.accept.clear()
    channel = bench.channel()
    await channel.open()
    with pytest.raises(TimedOut, match=r"did not accept a message within 0\.2 s") as caught:
        await channel.send(notification("x"))
    assert caught.value.executed
    exchange = asyncio.create_task(ask(channel, 1, n=1))
    await asyncio.sleep(0.4)
    assert not exchange.done()
    backend.accept.set()
    assert await exchange == {"n": 1}


async def test_a_cancelled_exchange_leaves_the_channel_usable(bench: Bench) -> None:
    backend = await bench.start()
    backend.accept.clear()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    exchange = asyncio.create_task(ask(channel, 1))
    await eventually(lambda: backend.posts)
    exchange.cancel()
    await asyncio.wait({exchange})
    assert exchange.cancelled()
    backend.accept.set()
    backend.say({"jsonrpc": "2.0", "id": 1, "result": "late"})
    assert await ask(channel, 2, n=2) == {"n": 2}
    assert not session.messages
    assert not session.losses


async def test_exchanges_cancelled_around_their_answer(bench: Bench) -> None:
    await bench.start()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    for number in range(100):
        exchange = asyncio.create_task(ask(channel, number, n=number))
        await asyncio.sleep(number % 20 * 0.0002)
        exchange.cancel()
        await asyncio.wait({exchange})
    assert not channel._pending  # noqa: SLF001
    assert await ask(channel, 1000, n=1) == {"n": 1}
    await eventually(lambda: not channel._posts)  # noqa: SLF001
    assert not session.losses


async def test_connections_are_reused(bench: Bench) -> None:
    backend = await bench.start()
    channel = bench.channel()
    await channel.open()
    for number in range(20):
        await ask(channel, number)
    assert len(backend.connections) == 1


async def test_a_message_never_meets_a_connection_that_the_backend_has_closed(bench: Bench) -> None:
    """Not even where this side had no time to notice."""
    backend = await bench.start()
    channel = bench.channel()
    await channel.open()
    for number in range(50):
        assert await ask(channel, number, n=number) == {"n": number}
        await eventually(lambda: not channel._posts)  # noqa: SLF001
        for connection in backend.connections:
            connection.close()
        backend.connections.clear()
    assert len(backend.posts) == 50


async def test_closing_fails_what_waits_and_closes_every_socket(bench: Bench) -> None:
    backend = await bench.start()
    files = open_files()
    channel = bench.channel()
    session = Session(channel)
    await channel.open()
    exchanges = [asyncio.create_task(ask(channel, number, "silent")) for number in range(5)]
    backend.accept.clear()
    await eventually(lambda: len(backend.posts) == 5)
    sending = asyncio.create_task(channel.send(notification("x")))
    await eventually(lambda: len(backend.posts) == 6)
    await asyncio.gather(channel.aclose(), channel.aclose())
    for outcome in await asyncio.gather(*exchanges, sending, return_exceptions=True):
        assert isinstance(outcome, Unreachable)
        assert outcome.executed
        assert "the proxy closed this session" in str(outcome)
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


async def test_tls_with_a_ca_bundle(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with AsyncExitStack() as stack:
        authority = await serve(stack, SseBackend().routes(), certificate.server)

        def channel(ca_bundle: str | None) -> SseChannel:
            server = HttpServer(kind="sse", url=f"https://{authority}/sse", ca_bundle=ca_bundle)
            made = SseChannel(server, connection="team/tools", connect_timeout=20.0)
            stack.push_async_callback(made.aclose)
            return made

        trusting = channel(certificate.authority)
        await trusting.open()
        assert await ask(trusting, 1, n=1) == {"n": 1}
        await failing(channel(None), Unreachable, "certificate is not trusted: .*CA bundle")
        await failing(channel("no pem"), Unreachable, r"CA bundle .*caBundleRef")


async def test_plain_text_on_a_tls_url_is_told(bench: Bench) -> None:
    await bench.start()
    await failing(bench.channel(url=f"https://{bench.authority}/sse"), Unreachable, "TLS failed")
