"""The HTTP client towards backends, against servers that send the bytes of each test."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels import http_client
from mcp_connections.proxy.channels.http_client import BodyTooLarge, HttpClient, HttpFault, HttpResponse
from mcp_connections.proxy.channels.tls import client_context
from tests.backends.http_server import free_socket
from tests.backends.raw_server import Connection, RawServer, Script, raw_server
from tests.cluster.credentials import write_certificates
from tests.proxy.running import eventually

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def always(*chunks: bytes) -> Script:
    """Answers every request with the same bytes and keeps the connection."""

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(*chunks)

    return script


def once(*chunks: bytes) -> Script:
    """Answers one request, then closes."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(*chunks)

    return script


@contextlib.asynccontextmanager
async def talking_to(script: Script, *, body_limit: int = 1 << 20) -> AsyncIterator[tuple[HttpClient, RawServer]]:
    """A client and the server it talks to."""
    async with raw_server(script) as server:
        client = HttpClient(f"http://127.0.0.1:{server.port}/mcp", tls=None, connect_timeout=10, body_limit=body_limit)
        try:
            async with asyncio.timeout(30):
                yield client, server
        finally:
            client.close()


async def whole(response: HttpResponse) -> bytes:
    """All of a streamed body."""
    chunks = []
    while chunk := await response.read():
        chunks.append(chunk)
    return b"".join(chunks)


# whole bodies


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with talking_to(always(OK)) as (client, server):
        for _ in range(20):
            response = await client.request(GET)
            assert (response.status, response.body, response.streamed) == (200, b"ok", False)
        assert server.accepted == 1


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nt: 1\r\n\r\n",
            200,
            b"abcdefg",
        ),
        (b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", 304, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 200\r\nCONTENT-LENGTH:2\r\nX: \r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 999 Odd\r\ncontent-length: 1\r\n\r\nx", 999, b"x"),
    ],
)
async def test_answers_of_every_framing_are_read_and_the_connection_kept(
    answer: bytes, status: int, body: bytes
) -> None:
    async with talking_to(always(answer)) as (client, server):
        for _ in range(3):
            response = await client.request(GET)
            assert (response.status, response.body) == (status, body)
        assert server.accepted == 1


async def test_an_answer_without_length_ends_with_its_connection() -> None:
    async with talking_to(once(b"HTTP/1.1 200 OK\r\n\r\nuntil ", b"the end")) as (client, server):
        for number in (1, 2):
            assert (await client.request(GET)).body == b"until the end"
            assert server.accepted == number


async def test_header_names_in_any_case_and_the_first_of_several() -> None:
    answer = b"HTTP/1.1 200 OK\r\nMCP-SESSION-ID: A\r\nmcp-session-id: B\r\nContent-Length: 0\r\n\r\n"
    async with talking_to(always(answer)) as (client, _):
        response = await client.request(GET)
        assert response.headers[b"mcp-session-id"] == b"A"
        assert response.header(b"absent") == ""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    framing=st.sampled_from(["length", "chunked", "gzip"]),
)
async def test_an_answer_in_any_pieces_is_the_same_answer(body: bytes, cuts: list[int], framing: str) -> None:
    if framing == "chunked":
        chunks = [body[start : start + 7] for start in range(0, len(body), 7)]
        payload = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        head = b"transfer-encoding: chunked\r\n"
    else:
        payload = gzip.compress(body) if framing == "gzip" else body
        head = b"content-length: %d\r\n" % len(payload)
        head += b"content-encoding: gzip\r\n" if framing == "gzip" else b""
    answer = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + payload
    marks = sorted(min(cut, len(answer)) for cut in cuts)
    pieces = [answer[start:end] for start, end in zip([0, *marks], [*marks, len(answer)], strict=True)]
    async with talking_to(always(*pieces)) as (client, server):
        for _ in range(2):
            assert (await client.request(GET)).body == body
        assert server.accepted == 1


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        (b"gzip", gzip.compress),
        (b"GZIP", gzip.compress),
        (b"x-gzip", gzip.compress),
        (b"deflate", zlib.compress),
        (b"deflate", lambda body: zlib.compress(body)[2:-4]),
        (b"identity", bytes),
    ],
)
async def test_compressed_bodies_are_inflated(encoding: bytes, compress: object) -> None:
    assert callable(compress)
    body = b"x" * 100_000 + b"end"
    payload = compress(body)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (encoding, len(payload))
    async with talking_to(always(head, payload[:1], payload[1:])) as (client, _):
        assert (await client.request(GET)).body == body


# faults


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "closed before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "closed before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", "closed before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "closed before the answer was complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "not HTTP/1.1"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            "switches to another protocol",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx", "which was not offered"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\nnot gzip!", "damaged"),
    ],
)
async def test_a_broken_answer_is_a_fault_of_a_request_that_may_have_run(
    answer: bytes, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking_to(once(answer)) as (client, server):
        with pytest.raises(HttpFault, match=says) as fault:
            await client.request(GET)
        assert fault.value.executed
        assert fault.value.advice, "what to do next"
        await eventually(lambda: server.open == 0)
        server.script = always(OK)
        assert (await client.request(GET)).body == b"ok"
    assert caplog.records == [], "nothing is left to the event loop's error handler"


async def test_a_reset_connection_is_a_fault() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
        connection.reset()

    async with talking_to(script) as (client, _):
        with pytest.raises(HttpFault) as fault:
            await client.request(GET)
        assert fault.value.executed


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_is_a_fault_of_a_request_that_did_not_run(host: str) -> None:
    with free_socket() as nobody:
        where = f"{host}:{nobody.getsockname()[1]}"
        client = HttpClient(f"http://{where}/", tls=None, connect_timeout=5)
        with pytest.raises(HttpFault, match="cannot connect") as fault:
            await client.request(GET)
        assert not fault.value.executed
        assert str(fault.value) == f"cannot connect to {where}: Connection refused"
        assert fault.value.advice == "check that it is up and listens at this address"


async def test_a_name_that_does_not_exist_is_a_fault() -> None:
    client = HttpClient("http://no-such-host.invalid/", tls=None, connect_timeout=20)
    with pytest.raises(HttpFault, match=r"no-such-host\.invalid:80") as fault:
        await client.request(GET)
    assert not fault.value.executed
    assert fault.value.advice == "check the host name in the URL"


async def test_connecting_takes_no_longer_than_allowed() -> None:
    with free_socket() as listener, contextlib.ExitStack() as stack:
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(free_socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        client = HttpClient(f"http://127.0.0.1:{listener.getsockname()[1]}/", tls=None, connect_timeout=0.2)
        with pytest.raises(HttpFault, match=r"no connection to .* within 0\.2 s") as fault:
            await client.request(GET)
        assert not fault.value.executed
        assert "raise policy.timeouts.connect" in fault.value.advice


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 5000\r\n",
        b"",
        b"content-encoding: gzip\r\ncontent-length: %d\r\n" % len(gzip.compress(b"x" * 5000)),
    ],
)
async def test_a_body_over_the_limit_is_refused(head: bytes) -> None:
    payload = gzip.compress(b"x" * 5000) if b"gzip" in head else b"x" * 5000
    async with talking_to(once(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n", payload), body_limit=4000) as (client, server):
        with pytest.raises(BodyTooLarge, match="4000 bytes") as fault:
            await client.request(GET)
        assert fault.value.advised.endswith("4000 bytes; ask the backend for less")
        await eventually(lambda: server.open == 0)
    async with talking_to(once(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n", payload), body_limit=5000) as (client, _):
        assert (await client.request(GET)).body == b"x" * 5000


# the pool


async def test_requests_at_the_same_time_use_connections_of_their_own_and_leave_them_to_later_ones() -> None:
    together = asyncio.Barrier(10)

    async def script(connection: Connection) -> None:
        while True:
            request = await connection.request()
            await together.wait()
            number = request.partition(b"/")[2].partition(b" ")[0]
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(number), number))

    async with talking_to(script) as (client, server):
        for _ in range(3):
            requests = [client.request(GET.replace(b"/", b"/%d" % number, 1)) for number in range(10)]
            assert [each.body for each in await asyncio.gather(*requests)] == [b"%d" % number for number in range(10)]
        assert server.accepted == 10


@pytest.mark.parametrize("answer", [OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"), OK.replace(b"1.1", b"1.0")])
async def test_a_connection_the_server_will_close_is_not_used_again(answer: bytes) -> None:
    async with talking_to(always(answer)) as (client, server):
        for number in (1, 2, 3):
            assert (await client.request(GET)).body == b"ok"
            assert server.accepted == number


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    async with talking_to(once(OK)) as (client, server):
        for number in (1, 2, 3):
            assert (await client.request(GET)).body == b"ok"
            await eventually(lambda: server.open == 0)
            await asyncio.sleep(0.01)
            assert server.accepted == number


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_the_server_closed_is_not_used_though_the_event_loop_does_not_know_yet(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        accepted: list[Connection] = []

        async def script(connection: Connection) -> None:
            accepted.append(connection)
            await always(OK)(connection)

        async with talking_to(script) as (client, server):
            for number in (1, 2, 3):
                assert (await client.request(GET)).body == b"ok"
                assert server.accepted == number
                descriptor = accepted[-1].writer.get_extra_info("socket").fileno()
                with socket.socket(fileno=os.dup(descriptor)) as end:
                    end.shutdown(socket.SHUT_WR)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(test())


async def test_bytes_nobody_asked_for_end_the_connection() -> None:
    second = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    async with talking_to(always(OK + second)) as (client, server):
        for number in range(1, 4):
            assert (await client.request(GET)).body == b"ok"
            await eventually(lambda: server.open == 0)
            assert server.accepted == number


async def test_half_an_answer_nobody_asked_for_never_reaches_another_request() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nev")
        await connection.request()
        await connection.send(b"il" + OK)

    async with talking_to(script) as (client, _):
        for _ in range(5):
            answers = await asyncio.gather(*(client.request(GET) for _ in range(3)))
            assert [each.body for each in answers] == [b"ok"] * 3


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_SECONDS", 0.05)
    async with talking_to(always(OK)) as (client, server):
        await asyncio.gather(*(client.request(GET) for _ in range(5)))
        assert server.open == 5
        await eventually(lambda: server.open == 0)
        assert (await client.request(GET)).body == b"ok"


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_CONNECTIONS", 3)
    held = asyncio.Event()

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await held.wait()
            await connection.send(OK)

    async with talking_to(script) as (client, server):
        waiting = [asyncio.create_task(client.request(GET)) for _ in range(3)]
        await eventually(lambda: server.accepted == 3)
        with pytest.raises(HttpFault, match="3 requests are already in flight") as fault:
            await client.request(GET)
        assert not fault.value.executed
        held.set()
        assert [each.body for each in await asyncio.gather(*waiting)] == [b"ok"] * 3
        assert (await client.request(GET)).body == b"ok"


async def test_cancelling_a_request_closes_its_connection_only() -> None:
    held = asyncio.Event()

    async def script(connection: Connection) -> None:
        while True:
            if b"/slow" in await connection.request():
                await held.wait()
            await connection.send(OK)

    async with talking_to(script) as (client, server):
        slow = [asyncio.create_task(client.request(GET.replace(b"/", b"/slow", 1))) for _ in range(2)]
        await eventually(lambda: server.accepted == 2)
        slow[0].cancel()
        await asyncio.wait({slow[0]})
        held.set()
        assert (await slow[1]).body == b"ok"
        await eventually(lambda: server.open == 1)


class _Handover(HttpClient):
    """Starts another request, and cancels the one that was answered, in the very moment of the answer."""

    answered: asyncio.Task[HttpResponse]
    other: asyncio.Task[HttpResponse] | None = None

    def give_back(self, connection: http_client._Connection) -> None:
        super().give_back(connection)
        if self.other is None:
            self.other = asyncio.create_task(self.request(GET))
            asyncio.get_running_loop().call_soon(self.answered.cancel)


async def test_cancelling_a_request_that_was_just_answered_does_not_touch_the_next_one() -> None:
    async with raw_server(always(OK)) as server:
        client = _Handover(f"http://127.0.0.1:{server.port}/", tls=None, connect_timeout=10)
        client.answered = asyncio.create_task(client.request(GET))
        with pytest.raises(asyncio.CancelledError):
            await client.answered
        assert client.other is not None
        assert (await client.other).body == b"ok"
        assert server.accepted == 1
        client.close()


async def test_closing_ends_everything() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await asyncio.Event().wait()

    async with talking_to(script) as (client, server):
        waiting = asyncio.create_task(client.request(GET))
        await eventually(lambda: server.accepted == 1)
        client.close()
        with pytest.raises(HttpFault, match="closed"):
            await waiting
        with pytest.raises(HttpFault) as fault:
            await client.request(GET)
        assert not fault.value.executed


# streams


async def test_a_stream_begins_with_its_head_and_is_read_as_it_comes() -> None:
    more = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM + b"3\r\none\r\n")
        await more.wait()
        await connection.send(b"3\r\ntwo\r\n0\r\n\r\n")
        await connection.request()
        await connection.send(OK)

    async with talking_to(script) as (client, server):
        response = await client.request(GET)
        assert response.streamed
        assert await response.read() == b"one"
        more.set()
        assert await whole(response) == b"two"
        assert (await client.request(GET)).body == b"ok"
        assert server.accepted == 1, "a stream that ended leaves its connection to the next request"


async def test_streams_at_the_same_time_do_not_take_each_others_connection_or_bytes() -> None:
    together = asyncio.Barrier(10)

    async def script(connection: Connection) -> None:
        while True:
            number = (await connection.request()).partition(b"/")[2].partition(b" ")[0]
            await together.wait()  # so that many answers are complete before their readers run
            await connection.send(STREAM + b"%x\r\n%s\r\n0\r\n\r\n" % (len(number), number))

    async def visit(client: HttpClient, visitor: int) -> None:
        for number in range(10):
            mine = b"%d-%d" % (visitor, number)
            response = await client.request(GET.replace(b"/", b"/" + mine, 1))
            if number % 2:
                assert await response.read() == mine
                response.release()
            else:
                assert await whole(response) == mine
            response.release()
            assert await response.read() == b"", "what is over is over"

    async with talking_to(script) as (client, server):
        for _ in range(3):
            await asyncio.gather(*(visit(client, visitor) for visitor in range(10)))
        assert server.accepted == 10


async def test_a_stream_that_breaks_off_gives_what_came_and_then_a_fault() -> None:
    async with talking_to(once(STREAM + b"3\r\none\r\n5\r\ntw")) as (client, _):
        response = await client.request(GET)
        received = b""
        while received != b"onetw":
            received += await response.read()
        with pytest.raises(HttpFault, match="closed before the answer was complete"):
            await response.read()


async def test_a_compressed_stream_is_inflated_as_it_comes() -> None:
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"data: one\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
    head = STREAM.replace(b"chunked\r\n", b"chunked\r\ncontent-encoding: gzip\r\n")

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(head + b"%x\r\n%s\r\n" % (len(first), first))
        await asyncio.Event().wait()

    async with talking_to(script) as (client, _):
        assert await (await client.request(GET)).read() == b"data: one\n\n"


async def test_a_released_stream_that_ends_soon_leaves_its_connection() -> None:
    release = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM + b"3\r\none\r\n")
        await release.wait()
        await connection.send(b"3\r\ntwo\r\n0\r\n\r\n")
        await connection.request()
        await connection.send(OK)

    async with talking_to(script) as (client, server):
        response = await client.request(GET)
        await response.read()
        response.release()
        release.set()
        await asyncio.sleep(0.05)
        assert (await client.request(GET)).body == b"ok"
        assert server.accepted == 1


async def test_a_released_stream_that_goes_on_is_closed() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM)
        while True:
            await connection.send(b"3\r\none\r\n")
            await asyncio.sleep(0.02)

    async with talking_to(script) as (client, server):
        response = await client.request(GET)
        await response.read()
        response.release()
        response.release()
        await eventually(lambda: server.open == 0)


async def test_a_reader_that_falls_behind_holds_the_server_up() -> None:
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(STREAM)
        chunk = b"10000\r\n%s\r\n" % (b"x" * 0x10000)
        for _ in range(640):
            await connection.send(chunk)
            sent += 0x10000
        await connection.send(b"0\r\n\r\n")

    async with talking_to(script) as (client, _):
        response = await client.request(GET)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 30 * 1024 * 1024, "40 MiB were taken in without anybody reading them"
        assert len(await whole(response)) == 640 * 0x10000


async def test_cancelling_a_read_closes_the_connection() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM)
        await connection.reader.read()

    async with talking_to(script) as (client, server):
        response = await client.request(GET)
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        reading.cancel()
        await eventually(lambda: server.open == 0)


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and a certificate of 127.0.0.1 and localhost."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder, "127.0.0.1")
    return folder


@contextlib.asynccontextmanager
async def tls_server(certificates: Path) -> AsyncIterator[RawServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    async with raw_server(always(OK), context) as server:
        yield server


def client_for(url: str, ca_bundle: str | None) -> HttpClient:
    tls = client_context(HttpServer(url=url, ca_bundle=ca_bundle))
    return HttpClient(url, tls=tls, connect_timeout=10)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_server_of_the_given_authority_is_trusted(certificates: Path, host: str) -> None:
    async with tls_server(certificates) as server:
        client = client_for(f"https://{host}:{server.port}/", (certificates / "ca.crt").read_text())
        assert (await client.request(GET)).body == b"ok"
        assert (await client.request(GET)).body == b"ok"
        assert server.accepted == 1
        client.close()
        await eventually(lambda: server.open == 0)


async def test_a_server_of_another_authority_is_not_trusted(certificates: Path) -> None:
    async with tls_server(certificates) as server:
        client = client_for(f"https://localhost:{server.port}/", None)
        with pytest.raises(HttpFault, match=f"localhost:{server.port}: its TLS certificate is not trusted") as fault:
            await client.request(GET)
        assert not fault.value.executed
        client.close()


def test_a_bundle_without_certificates_is_named() -> None:
    with pytest.raises(ValueError, match="no usable PEM certificate"):
        client_context(HttpServer(url="https://x/", ca_bundle="not PEM"))


def test_a_url_without_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match="no host"):
        HttpClient("http:///mcp", tls=None, connect_timeout=1)
