"""The endpoint's HTTP: statuses, headers, limits, and what is no MCP at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from mcp_connections.mounts.spec import Access, ClientLimits, DesiredMounts
from mcp_connections.proxy.access.host_guard import HostGuard
from mcp_connections.proxy.downstream import listening_stream, request_stream, unasked_messages
from tests.backends.calls import Call
from tests.backends.scripted import ScriptedBackend, text
from tests.proxy.client import BOTH, Client
from tests.proxy.desired import http
from tests.proxy.json_texts import deep
from tests.proxy.running import RunningProxy, eventually, running_proxy

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
async def client(proxy: RunningProxy) -> Client:
    """A client with a session; nothing is mounted."""
    return await proxy.client()


# bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"null",
        b"7",
        b'"text"',
        b"not json",
        b'{"jsonrpc":"2.0"',
        b"\xff\xfe",
        deep(100_000),
        b"{}{}",
    ],
    ids=repr,
)
async def test_what_is_no_json_rpc_is_400(client: Client, body: bytes) -> None:
    answer = await client.post(body)
    assert answer.status == 400
    assert answer.error["code"] in (-32700, -32600)
    assert answer.response["id"] is None


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
    ],
    ids=repr,
)
async def test_json_that_is_no_message_is_400(client: Client, message: Any) -> None:
    answer = await client.post(json.dumps(message).encode())
    assert answer.status == 400
    assert answer.error["code"] == -32600


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_other_content_types_are_415(client: Client, content_type: str) -> None:
    answer = await client.post(PING, content_type=content_type)
    assert answer.status == 415
    assert "application/json" in answer.error["message"]


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
async def test_the_content_type_may_have_parameters_and_any_case(client: Client, content_type: str) -> None:
    assert (await client.post(PING, content_type=content_type)).result == {}


async def test_a_body_over_16_mib_is_413_before_it_is_read(proxy: RunningProxy, client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.server.port)
    size = ClientLimits().request_bytes + 1
    assert size == 16 * 1024 * 1024 + 1
    writer.write(_head(proxy, client, f"content-length: {size}"))
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()
    writer.close()


async def test_the_largest_body_is_a_setting(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.registry.apply(DesiredMounts(client_limits=ClientLimits(request_bytes=1000)))
    client = await proxy.client()
    answer = await client.request("ping", b'{"_meta":{"x":"%s"}}' % (b"y" * 1000))
    assert answer.status == 413
    assert "1000 bytes (spec.limits.requestBodyMib" in answer.error["message"]
    assert (await client.request("ping")).status == 200


async def test_a_body_of_unknown_length_is_cut_off_at_16_mib(proxy: RunningProxy, client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.server.port)
    writer.write(_head(proxy, client, "transfer-encoding: chunked"))
    chunk = b"100000\r\n%s\r\n" % (b" " * 0x100000)
    sent = 0
    answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    async with asyncio.timeout(20):
        while not answered.done() and sent < 64:
            try:
                writer.write(chunk)
                await writer.drain()
            except ConnectionError:
                break
            sent += 1
            await asyncio.sleep(0)
        assert (await answered).startswith(b"HTTP/1.1 413 ")
    assert sent < 64
    writer.close()


async def test_a_body_of_just_under_16_mib_is_taken(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    padding = ClientLimits().request_bytes - 200
    answer = await client.request("tools/call", b'{"name":"one_bump","arguments":{"x":"%s"}}' % (b"y" * padding))
    assert answer.text == "1"


def _head(proxy: RunningProxy, client: Client, length: str) -> bytes:
    lines = [f"{name}: {value}" for name, value in client.headers().items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", f"host: 127.0.0.1:{proxy.server.port}", *lines, length, "", ""]).encode()


# methods and paths


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_other_http_methods_are_405_with_those_allowed(proxy: RunningProxy, method: str) -> None:
    async with proxy.http.request(method, proxy.url) as response:
        assert response.status == 405
        assert {each.strip() for each in response.headers["allow"].split(",")} == {"GET", "POST", "DELETE"}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_both_spellings_of_the_path_are_served_without_a_redirect(proxy: RunningProxy, path: str) -> None:
    client = Client(proxy.http, f"{proxy.origin}{path}")
    await client.initialize()
    assert (await client.request("tools/list", x_forwarded_proto="https")).status == 200
    headers = client.headers(accept="text/event-stream")
    async with proxy.http.get(client.url, headers=headers, allow_redirects=False) as stream:
        assert stream.status == 200
        assert stream.content_type == "text/event-stream"
    async with proxy.http.delete(client.url, headers=client.headers(), allow_redirects=False) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/", "/mcp/x", "/sse", "/metrics", "/admin/v1/mounts", "/MCP"])
async def test_nothing_else_is_served_there(proxy: RunningProxy, path: str) -> None:
    async with proxy.http.get(f"{proxy.origin}{path}") as response:
        assert response.status == 404


async def test_probes_answer_get_and_head_of_any_host(proxy: RunningProxy) -> None:
    await proxy.apply()
    for path in ("/healthz", "/readyz"):
        for method in ("GET", "HEAD"):
            async with proxy.http.request(
                method, f"{proxy.origin}{path}", headers={"host": "10.1.2.3:8000"}
            ) as response:
                assert response.status == 200


# hosts and origins


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8000"])
async def test_names_of_this_machine_are_served(proxy: RunningProxy, client: Client, host: str) -> None:
    assert (await client.post(PING, host=host)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1"]
)
async def test_other_hosts_are_421(proxy: RunningProxy, client: Client, host: str) -> None:
    answer = await client.post(PING, host=host)
    assert answer.status == 421
    assert host in answer.error["message"]
    async with proxy.http.get(proxy.url, headers={"host": host, "accept": "text/event-stream"}) as response:
        assert response.status == 421


async def test_further_names_can_be_allowed() -> None:
    async with running_proxy() as proxy:
        await proxy.registry.apply(DesiredMounts(access=Access(allowed_hosts=("Mcp.Example.org",))))
        client = await proxy.client()
        assert (await client.post(PING, host="mcp.example.ORG:443")).status == 200
        assert (await client.post(PING, host="other.example.org")).status == 421
        assert (await client.post(PING, origin="https://mcp.example.org")).status == 200
        assert (await client.post(PING, origin="https://other.example.org")).status == 403


@pytest.mark.parametrize("origin", ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3000"])
async def test_pages_of_this_machine_may_use_the_endpoint(client: Client, origin: str) -> None:
    assert (await client.post(PING, origin=origin)).status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost.evil.example", "null", "file://", "http://[", "localhost"]
)
async def test_other_pages_are_403_where_names_are_listed(proxy: RunningProxy, client: Client, origin: str) -> None:
    assert (
        await client.post(PING, origin=origin)
    ).status == 200  # what a page would have to ask for first is not given
    await proxy.registry.apply(DesiredMounts(access=Access(allowed_hosts=("localhost", "127.0.0.1"))))
    answer = await client.post(PING, origin=origin)
    assert answer.status == 403
    assert answer.response["id"] is None
    for send in (proxy.http.get, proxy.http.delete):
        async with send(proxy.url, headers=client.headers(origin=origin)) as response:
            assert response.status == 403


async def test_a_page_of_another_origin_is_given_no_leave(proxy: RunningProxy, client: Client) -> None:
    """What browsers ask before they send JSON to another origin, and what a page can send without asking."""
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    async with proxy.http.options(proxy.url, headers=asked) as response:
        assert response.status == 405
        assert not any(name.lower().startswith("access-control-") for name in response.headers)
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = await client.post(PING, origin="https://evil.example", content_type=content_type)
        assert answer.status == 415


def test_an_endpoint_that_is_published_leaves_names_to_its_publisher_unless_it_lists_them() -> None:
    published = HostGuard("0.0.0.0")
    assert published.allows(b"mcp.example.org")
    assert published.allows_origin(b"https://app.example.org")
    listed = HostGuard("0.0.0.0", ["mcp.example.org"])
    assert listed.allows_origin(b"https://mcp.example.org")
    assert not listed.allows_origin(b"https://app.example.org")


# sessions and versions


async def test_an_unsupported_protocol_version_is_400(proxy: RunningProxy, client: Client) -> None:
    answer = await client.request("ping", mcp_protocol_version="1999-01-01")
    assert answer.status == 400
    assert "1999-01-01" in json.dumps(answer.error)
    for send in (proxy.http.get, proxy.http.delete):
        async with send(proxy.url, headers=client.headers(**{"mcp-protocol-version": "1999-01-01"})) as response:
            assert response.status == 400
            assert "2025-11-25" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("version", ["", "2025-03-26", "2024-11-05"])
async def test_the_version_header_may_be_absent_or_older(client: Client, version: str) -> None:
    assert (await client.request("ping", mcp_protocol_version=version)).result == {}


@pytest.mark.parametrize(
    "params",
    [None, {}, [], {"protocolVersion": 5, "capabilities": {}}, {"protocolVersion": "2025-11-25", "capabilities": []}],
    ids=repr,
)
async def test_a_malformed_initialize_is_an_error(proxy: RunningProxy, params: Any) -> None:
    answer = await proxy.new_client().request("initialize", params)
    assert answer.status == 400
    assert answer.error["code"] == -32602
    assert "mcp-session-id" not in answer.headers
    assert len(proxy.process.sessions) == 0


async def test_initialize_with_numbers_no_double_can_hold_is_answered(proxy: RunningProxy) -> None:
    params = b'{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"n":1e999}},"clientInfo":{"name":"x"}}'
    answer = await proxy.new_client().request("initialize", params)
    assert answer.status in (200, 400)
    assert "error" in answer.response or "mcp-session-id" in answer.headers


# requests


async def test_ping_is_answered_by_the_proxy(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert (await client.request("ping")).result == {}
    assert (await client.request("ping", {"_meta": {"x": 1}})).result == {}
    assert backend.seen("ping") == []


@pytest.mark.parametrize("method", ["tools/unknown", "initialize2", "server/discover", "tasks/list", ""])
async def test_unknown_methods_are_not_found(client: Client, method: str) -> None:
    error = (await client.request(method, {})).error
    assert error["code"] == -32601
    assert method in error["message"]


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
async def test_lists_have_one_page_and_other_cursors_are_refused(
    proxy: RunningProxy, backend: ScriptedBackend, method: str
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    pages: list[Any] = [None, {}, {"cursor": None}, {"_meta": {}}]
    for params in pages:
        assert "nextCursor" not in (await client.request(method, params)).result
    for cursor in ("10", "", 0):
        assert (await client.request(method, {"cursor": cursor})).error["code"] == -32602
    assert (await client.request(method, [])).error["code"] == -32602


@pytest.mark.parametrize(
    "method", ["tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete"]
)
@pytest.mark.parametrize("params", [None, {}, [], 5, {"name": 5, "uri": None, "ref": "x"}], ids=repr)
async def test_malformed_params_are_named(client: Client, method: str, params: Any) -> None:
    answer = await client.request(method, params)
    assert answer.status == 200
    assert answer.error["code"] == -32602
    assert answer.error["message"].startswith(method)


async def test_notifications_and_responses_are_accepted_without_a_body(client: Client) -> None:
    for message in (
        {"method": "notifications/initialized"},
        {"method": "notifications/of-the-future", "params": {"a": 1}},
        {"id": "nobody-asked", "result": {}},
        {"id": 5, "error": {"code": 1, "message": "x"}},
    ):
        answer = await client.post(json.dumps({"jsonrpc": "2.0", **message}).encode())
        assert (answer.status, answer.body) == (202, b"")


async def test_answers_are_json_while_nothing_comes_before_them(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.answers_with_sse = True
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    answer = await client.call("one_bump")
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)


# batches


async def test_a_batch_of_2025_03_26_is_answered_in_one_array(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(version="2025-03-26")
    messages = [
        {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "one_bump"}},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
        {"jsonrpc": "2.0", "id": 4, "method": "no/such"},
        {"jsonrpc": "2.0", "id": "nobody-asked", "result": {}},
    ]
    answer = await client.post(json.dumps(messages).encode())
    assert answer.status == 200
    responses = {each["id"]: each for each in json.loads(answer.body)}
    assert set(responses) == {"a", 2, 3, 4}
    assert responses["a"]["result"]["content"][0]["text"] == "1"
    assert responses[2]["result"] == {}
    assert responses[3]["error"]["code"] == -32601
    assert responses[4]["error"]["code"] == -32601


async def test_batches_are_refused_where_they_mean_nothing(proxy: RunningProxy) -> None:
    newer, older = await proxy.client(), await proxy.client(version="2025-03-26")
    ping = json.loads(PING)
    answer = await newer.post(json.dumps([ping]).encode())
    assert answer.status == 400
    assert "2025-11-25" in answer.error["message"]
    batches: list[Any] = [[], [1], ["x"], [[]], [ping] * 101]
    for batch in batches:
        assert (await older.post(json.dumps(batch).encode())).status == 400
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await older.post(json.dumps([notification]).encode())).status == 202
    stranger = proxy.new_client()
    assert (await stranger.post(json.dumps([ping]).encode())).status == 400


async def test_notifications_of_a_batch_come_on_its_stream(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def handler(call: Call) -> Any:
        call.progress(1)
        return text("done")

    backend.tool("it", handler)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(version="2025-03-26")
    params = {"name": "one_it", "_meta": {"progressToken": "t"}}
    answer = await client.post(
        json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}]).encode()
    )
    progress, responses = map(json.loads, answer.messages)
    assert progress["params"]["progressToken"] == "t"
    assert responses[0]["result"]["content"][0]["text"] == "done"


async def test_one_request_of_a_batch_can_be_cancelled(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(version="2025-03-26")
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "one_slow"}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "one_bump"}},
    ]
    posting = asyncio.create_task(client.post(json.dumps(messages).encode()))
    call = await gate.arrived()
    await client.notify("notifications/cancelled", {"requestId": 1})
    async with asyncio.timeout(20):
        await call.cancelled.wait()
        assert [each["id"] for each in json.loads((await posting).body)] == [2]

    posting = asyncio.create_task(client.post(json.dumps(messages[:1]).encode()))
    call = await gate.arrived(2)
    await client.delete()
    async with asyncio.timeout(20):
        await call.cancelled.wait()
        assert (await posting).messages == []
    await backend.until(lambda: len(backend.live) == 1)


# GET


async def test_a_get_without_event_streams_in_accept_is_406(proxy: RunningProxy, client: Client) -> None:
    async with proxy.http.get(proxy.url, headers=client.headers(accept="application/json")) as response:
        assert response.status == 406


async def test_a_silent_stream_is_kept_open_with_comments(
    proxy: RunningProxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_stream, "SILENCE_SECONDS", 0.05)
    async with proxy.http.get(proxy.url, headers=client.headers(accept="text/event-stream")) as response:
        assert response.headers["cache-control"].startswith("no-cache")
        async with asyncio.timeout(20):
            for _ in range(4):
                assert await response.content.readline() == b": ping\n"
                assert await response.content.readline() == b"\n"


# readers that do not read


@pytest.fixture
async def unread(proxy: RunningProxy) -> AsyncIterator[Any]:
    """Opens raw connections that send a request and read nothing until told to."""
    writers: list[asyncio.StreamWriter] = []

    async def send(data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.server.port, limit=1024)
        writers.append(writer)
        writer.write(data)
        await writer.drain()
        return reader

    yield send
    for writer in writers:
        writer.transport.abort()


async def test_a_client_that_does_not_read_its_answer_loses_the_oldest_messages_not_the_response(
    proxy: RunningProxy, backend: ScriptedBackend, unread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_stream, "MAX_QUEUED", 100)
    count, padding = 1000, "x" * 8000
    finished = asyncio.Event()

    async def handler(call: Call) -> Any:
        for number in range(count):
            call.notify("notifications/message", {"level": "info", "data": [number, padding]})
            if number % 50 == 0:
                await eventually(lambda: call.outbox.qsize() < 50)
        finished.set()
        return text("done")

    backend.tool("flood", handler)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    body = b'{"jsonrpc":"2.0","id":"flood","method":"tools/call","params":{"name":"one_flood"}}'
    reader = await unread(_head(proxy, client, f"content-length: {len(body)}") + body)
    async with asyncio.timeout(30):
        await finished.wait()
        await eventually(lambda: proxy.report("one").in_flight == 0)
        assert (await client.request("ping")).result == {}, "others are served meanwhile"
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += await reader.read(1 << 20)
    messages = received.count(b"notifications/message")
    assert 100 <= messages < count
    assert b'"done"' in received[-2000:]
    assert b"[%d," % (count - 1) in received, "the newest are kept"


async def test_a_client_that_does_not_read_its_get_stream_loses_the_oldest_messages(
    proxy: RunningProxy, backend: ScriptedBackend, unread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unasked_messages, "MAX_QUEUED", 100)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    get = _head(proxy, client, "x: y").replace(b"POST", b"GET", 1)
    reader = await unread(get)
    await reader.readuntil(b": ping\n\n")
    await client.call("one_bump")
    (session,) = backend.client_sessions
    await backend.until(lambda: session.listening)
    count, padding = 1000, "x" * 8000
    for number in range(count):
        session.notify("notifications/message", {"level": "info", "data": [number, padding]})
        if number % 50 == 0:
            await eventually(lambda: session.outbox.qsize() < 50)
    await eventually(lambda: session.outbox.empty())
    received = b""
    async with asyncio.timeout(30):
        while b"[%d," % (count - 1) not in received[-9000:]:
            received += await reader.read(1 << 20)
    assert 100 <= received.count(b"notifications/message") < count


async def test_a_request_cut_off_in_its_body_leaves_nothing(proxy: RunningProxy, client: Client, unread: Any) -> None:
    await unread(_head(proxy, client, "content-length: 1000") + b'{"jsonrpc"')
    proxy.server.drop_connections()
    await eventually(lambda: proxy.server.connections == 0)
    assert (await client.request("ping")).result == {}


async def test_accept_decides_between_stream_and_body(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def handler(call: Call) -> Any:
        call.progress(1)
        return text("done")

    backend.tool("it", handler)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    params = {"name": "one_it", "_meta": {"progressToken": 1}}
    for accept, content_type in (
        (BOTH, "text/event-stream"),
        ("text/event-stream", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("application/json", "application/json"),
    ):
        answer = await client.request("tools/call", params, accept=accept)
        assert answer.headers["content-type"] == content_type
        assert answer.text == "done"


async def test_many_requests_on_one_connection(proxy: RunningProxy, client: Client) -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as one_connection:
        same = Client(one_connection, proxy.url)
        same.session_id = client.session_id
        accepted = proxy.server.accepted
        for _ in range(50):
            assert (await same.request("ping")).status == 200
        assert proxy.server.accepted == accepted + 1
