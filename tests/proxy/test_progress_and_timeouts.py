"""Progress, time limits and cancellation of calls: what passes between a client and a backend while a call runs."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.downstream import request_stream
from tests.backends.calls import DONE, Call, Gate
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, text
from tests.proxy.client import Client
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

PROGRESS = "notifications/progress"


@pytest.fixture
async def client(proxy: RunningProxy, backend: ScriptedBackend) -> Client:
    """A client, with one connection mounted."""
    await proxy.apply(http("one", backend.url))
    return await proxy.client()


async def with_progress(call: Call) -> Any:
    call.progress(1, total=2, message="half")
    call.progress(2.50)
    return text("done")


async def offer(proxy: RunningProxy, backend: ScriptedBackend, handler: Any) -> None:
    """Offer ``handler`` as the tool one_it, whether or not the connection is mounted yet."""
    backend.tools["it"] = handler
    backend.add_item("tools", {"name": "it", "inputSchema": {"type": "object"}})
    proxy.mount("one").list_changed()
    await eventually(lambda: "one_it" in proxy.registry.aggregate.targets["tool"])


@pytest.mark.parametrize("token", [b'"abc"', b"7", b"0", b'"7"', b'""', b'"\\u0061"', b"9007199254740993", b"-1"])
async def test_ntf_04_progress_comes_with_exactly_the_clients_token(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, token: bytes
) -> None:
    await offer(proxy, backend, with_progress)
    answer = await client.request("tools/call", b'{"name":"one_it","_meta":{"progressToken":%s}}' % token)
    assert answer.text == "done"
    first, second = answer.messages[:2]
    assert b'"progressToken":%s' % token in first.replace(b" ", b"")
    assert json.loads(first)["params"] == {
        "progressToken": json.loads(token),
        "progress": 1,
        "total": 2,
        "message": "half",
    }
    assert b"2.5" in second


async def test_ntf_04_progress_without_a_token_is_dropped(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def handler(call: Call) -> Any:
        assert call.token is None
        call.notify(PROGRESS, {"progressToken": 1, "progress": 1})
        call.notify(PROGRESS, {"progressToken": "x", "progress": 1})
        call.notify(PROGRESS, {"progressToken": None, "progress": 1})
        call.notify(PROGRESS, {"progress": 1})
        call.notify(PROGRESS)
        return text("done")

    await offer(proxy, backend, handler)
    answer = await client.call("one_it")
    assert answer.text == "done"
    assert answer.notifications == []


async def test_ntf_04_foreign_and_late_progress_is_dropped(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    late: list[Call] = []

    async def handler(call: Call) -> Any:
        late.append(call)
        call.notify(PROGRESS, {"progressToken": call.token + 1000, "progress": 1})
        call.notify(PROGRESS, {"progressToken": "someone-elses", "progress": 1})
        call.progress(2)
        call.respond(text("done"), last=False)
        call.progress(3)
        call.put(b": the end\n\n", raw=True, last=True)
        return DONE

    await client.listen()
    await offer(proxy, backend, handler)
    answer = await client.call("one_it", _meta={"progressToken": "t"})
    assert [each["params"]["progress"] for each in answer.notifications] == [2]
    (call,) = late
    await backend.until(lambda: call.session.listening)
    call.session.notify(PROGRESS, {"progressToken": call.token, "progress": 4})
    call.session.notify("notifications/message", {"level": "info", "data": "behind it"})
    await client.hear("notifications/message")
    assert client.heard_of(PROGRESS) == []


async def test_concurrent_calls_get_their_own_progress(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def handler(call: Call) -> Any:
        for number in range(5):
            call.progress(number, message=call.arguments["who"])
            await asyncio.sleep(0)
        return text(call.arguments["who"])

    await offer(proxy, backend, handler)
    other = await proxy.client()
    callers = [(each, who) for who in ("a", "b", "c") for each in (client, other)]
    answers = await asyncio.gather(
        *(each.call("one_it", {"who": who}, _meta={"progressToken": 1}) for each, who in callers)
    )
    for (_, who), answer in zip(callers, answers, strict=True):
        assert answer.text == who
        assert [each["params"]["message"] for each in answer.notifications] == [who] * 5
        assert {each["params"]["progressToken"] for each in answer.notifications} == {1}


async def test_progress_on_the_backends_get_stream_reaches_the_call(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    gate = Gate()
    await client.listen()
    await offer(proxy, backend, gate.handle)
    calling = asyncio.create_task(client.call("one_it", _meta={"progressToken": "t"}))
    call = await gate.arrived()
    await backend.until(lambda: call.session.listening)
    call.session.notify(PROGRESS, {"progressToken": call.token, "progress": 1})
    await client.until_streamed(PROGRESS)
    gate.open()
    assert (await calling).notifications[0]["params"] == {"progressToken": "t", "progress": 1}


async def test_progress_extends_the_time_limit(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def handler(call: Call) -> Any:
        for number in range(4):
            await asyncio.sleep(0.45)
            call.progress(number)
        return text("done")

    backend.tool("it", handler)
    await proxy.apply(http("one", backend.url, timeouts=Timeouts(request=1.5, max=20)))
    client = await proxy.client()
    answer = await client.call("one_it", _meta={"progressToken": 1})
    assert answer.text == "done"
    assert len(answer.notifications) == 4


async def test_a_call_without_progress_ends_at_the_time_limit(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url, timeouts=Timeouts(request=0.2)))
    client = await proxy.client()
    error = (await client.call("one_slow")).error
    assert error["data"] == {"connection": "team/one", "reason": "Timeout"}
    assert "no answer within 0.2 s; raise policy.timeouts.request" in error["message"]
    call = await gate.arrived()
    async with asyncio.timeout(20):
        await call.cancelled.wait()
    gate.open()
    assert (await client.call("one_bump")).text == "1"
    assert len(gate.calls) == 1, "a call that may have run is not sent again"


async def test_progress_extends_no_call_beyond_the_maximum(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    calls: list[Call] = []

    async def handler(call: Call) -> Any:
        calls.append(call)
        while True:
            await asyncio.sleep(0.02)
            call.progress(1)

    backend.tool("it", handler)
    await proxy.apply(http("one", backend.url, timeouts=Timeouts(request=0.3, max=0.6)))
    client = await proxy.client()
    async with asyncio.timeout(10):
        error = (await client.call("one_it", _meta={"progressToken": 1})).error
    assert error["data"]["reason"] == "Timeout"
    assert "0.6 s in all, whatever its progress; raise policy.timeouts.max" in error["message"]
    async with asyncio.timeout(20):
        await calls[0].cancelled.wait()


@pytest.mark.parametrize("request_id", [41, "id-of-the-client"])
async def test_cancelling_a_call_reaches_the_backend(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, request_id: int | str
) -> None:
    gate = Gate()
    await offer(proxy, backend, gate.handle)
    calling = asyncio.create_task(client.request("tools/call", {"name": "one_it"}, request_id=request_id))
    call = await gate.arrived()
    assert await client.notify("notifications/cancelled", {"requestId": request_id, "reason": "enough"}) == 202
    async with asyncio.timeout(20):
        await call.cancelled.wait()
        answer = await calling
    assert answer.messages == [], "a cancelled request gets no response"
    await eventually(lambda: proxy.report("one").in_flight == 0)
    assert (await client.call("one_bump")).text == "1"
    assert proxy.report("one").ready


@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": 999}, {"requestId": None}, {"requestId": "41"}, {"requestId": {}}, [], 7]
)
async def test_cancelling_what_does_not_run_changes_nothing(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, params: Any
) -> None:
    gate = Gate()
    await offer(proxy, backend, gate.handle)
    calling = asyncio.create_task(client.request("tools/call", {"name": "one_it"}, request_id=41))
    call = await gate.arrived()
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    answer = await client.post(json.dumps(message | ({} if params is None else {"params": params})).encode())
    assert answer.status in (202, 400)
    gate.open()
    assert (await calling).text == f"passed in {call.session.id}"
    assert not call.cancelled.is_set()


async def test_a_client_that_goes_away_cancels_its_call(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_stream, "WATCH_SECONDS", 0.05)
    gate = Gate()
    await offer(proxy, backend, gate.handle)
    calling = asyncio.create_task(client.call("one_it"))
    call = await gate.arrived()
    calling.cancel()
    async with asyncio.timeout(20):
        await call.cancelled.wait()
    await eventually(lambda: proxy.report("one").in_flight == 0)
    assert (await client.call("one_bump")).text == "1", "the session is still there"


async def test_a_client_that_goes_away_in_the_middle_of_its_stream_cancels_its_call(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_stream, "WATCH_SECONDS", 0.05)
    held = asyncio.Event()
    calls: list[Call] = []

    async def handler(call: Call) -> Any:
        calls.append(call)
        call.progress(1)
        await held.wait()
        return text("done")

    await offer(proxy, backend, handler)
    calling = asyncio.create_task(client.call("one_it", _meta={"progressToken": 1}))
    await client.until_streamed(PROGRESS)
    calling.cancel()
    async with asyncio.timeout(20):
        await calls[0].cancelled.wait()


async def test_a_silent_call_keeps_its_connection_alive(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_stream, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(request_stream, "SILENCE_SECONDS", 0.05)
    gate = Gate()
    await offer(proxy, backend, gate.handle)
    calling = asyncio.create_task(client.call("one_it"))
    await gate.arrived()
    await asyncio.sleep(0.3)
    gate.open()
    answer = await calling
    assert answer.text.startswith("passed")
    assert answer.body.count(b": ping\n\n") >= 2
    assert len(answer.messages) == 1


async def test_a_backend_that_drops_the_connection_fails_that_call_only(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    gate = Gate()

    async def handler(call: Call) -> Any:
        if call.arguments.get("drop"):
            call.drop()
        return await gate.handle(call)

    await offer(proxy, backend, handler)
    other = asyncio.create_task(client.call("one_it"))
    await gate.arrived()
    error = (await client.call("one_it", {"drop": True})).error
    assert error["data"] == {"connection": "team/one", "reason": "Unreachable"}
    assert "closed before the answer was complete" in error["message"]
    gate.open()
    assert (await other).text.startswith("passed")
    await proxy.until_ready("one")
    assert len(backend.calls_of("it")) == 2, "a call that may have run is not sent again"


async def test_a_stream_that_ends_before_the_answer_is_resumed(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def handler(call: Call) -> Any:
        call.progress(1)
        call.interrupt("event-1")
        call.progress(2)
        call.interrupt("event-2")
        call.progress(3)
        return text("done")

    await offer(proxy, backend, handler)
    answer = await client.call("one_it", _meta={"progressToken": 1})
    assert answer.text == "done"
    assert [each["params"]["progress"] for each in answer.notifications] == [1, 2, 3]
    resumed = [seen for seen in backend.requests if "last-event-id" in seen.headers]
    assert [(seen.method, seen.headers["last-event-id"]) for seen in resumed] == [
        ("GET", "event-1"),
        ("GET", "event-2"),
    ]
    assert all(seen.session for seen in resumed)
    assert len(backend.calls_of("it")) == 1


async def test_a_stream_that_ends_without_answer_or_resumption_is_an_error(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def handler(call: Call) -> Any:
        call.put(b": nothing more to come\n\n", raw=True, last=True)
        return DONE

    await offer(proxy, backend, handler)
    error = (await client.call("one_it")).error
    assert error["data"]["reason"] == "ProtocolError"
    assert "ended the stream before it answered" in error["message"]


async def test_priming_and_unknown_events_are_no_messages(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def handler(call: Call) -> Any:
        call.put(b"id: 1\nretry: 10\ndata:\n\n", raw=True)
        call.put(b"event: heartbeat\ndata: {}\n\n", raw=True)
        call.put(b"data: not json\n\n", raw=True)
        call.put(b": comment\r\n\r\n", raw=True)
        return text("done")

    await offer(proxy, backend, handler)
    answer = await client.call("one_it")
    assert (answer.text, answer.notifications) == ("done", [])


@pytest.mark.parametrize("status", [400, 403, 404, 405, 421, 429, 500, 502, 503])
async def test_an_http_error_in_answer_to_a_call_names_its_status(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, status: int
) -> None:
    async def refuse(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(status, b"for a reason") if seen.rpc == "tools/call" else None

    backend.intercept = refuse
    error = (await client.call("one_bump")).error
    assert error["data"]["connection"] == "team/one"
    assert f"HTTP {status}" in error["message"]
    assert len(backend.calls_of("bump")) == (2 if status == 404 else 1)
    backend.intercept = None
    assert (await client.call("one_bump")).text == "1"


async def test_a_json_rpc_error_with_an_http_error_status_is_the_answer(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    async def refuse(seen: Seen) -> HttpAnswer | None:
        if seen.rpc != "tools/call":
            return None
        body = {"jsonrpc": "2.0", "id": seen.message["id"], "error": {"code": -32602, "message": "no", "data": [1]}}
        return HttpAnswer(400, json.dumps(body).encode(), {"content-type": "application/json"})

    backend.intercept = refuse
    assert (await client.call("one_bump")).error == {"code": -32602, "message": "no", "data": [1]}


async def test_a_redirect_on_the_same_origin_is_followed_with_body_and_headers(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    async def redirect(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(307, b"", {"location": "/mcp"}) if seen.path == "/old" else None

    backend.intercept = redirect
    await proxy.apply(http("one", f"{backend.server.origin}/old", headers={"authorization": "Bearer x"}))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    assert {seen.headers["authorization"] for seen in backend.requests} == {"Bearer x"}
    assert len([seen for seen in backend.requests if seen.path == "/old"]) == 1, "once is enough to know"


async def test_a_redirect_to_another_origin_is_not_followed(
    proxy: RunningProxy, backend: ScriptedBackend, other_server: list[str]
) -> None:
    async def redirect(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(308, b"", {"location": f"{other_server[0]}/mcp"})

    backend.intercept = redirect
    await proxy.apply(http("one", backend.url, headers={"authorization": "Bearer secret"}))
    report = proxy.report("one")
    assert report.reason == "Unreachable"
    assert f"redirects to {other_server[0]}/mcp" in report.message
    assert other_server[1:] == [], "the credential went to another server"


@pytest.fixture
async def other_server(make_backend: Any) -> Any:
    """Another server: its origin, and behind that what reached it."""
    other = await make_backend()
    seen = [other.server.origin]

    async def note(request: Seen) -> HttpAnswer | None:
        seen.append(request.path)
        return None

    other.intercept = note
    return seen


async def test_compressed_answers_are_decoded_and_only_those_that_can_be(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    encodings: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "br": bytes}
    order = iter(encodings)

    async def compress(seen: Seen) -> HttpAnswer | None:
        if seen.rpc != "tools/call":
            return None
        body = json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "result": text("ünï" * 50_000)})
        encoding = next(order)
        headers = {"content-type": "application/json", "content-encoding": encoding}
        return HttpAnswer(200, encodings[encoding](body.encode()), headers)

    backend.intercept = compress
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "ünï" * 50_000
    assert (await client.call("one_bump")).text == "ünï" * 50_000
    error = (await client.request("tools/call", {"name": "one_bump"}, accept_encoding="br")).error
    assert "encoded as 'br', which was not offered" in error["message"]
    assert {seen.headers["accept-encoding"] for seen in backend.requests} == {"identity"}


async def test_connections_of_clients_may_break_at_any_moment(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    for turns in range(12):
        calling = asyncio.create_task(client.call("one_bump"))
        for _ in range(turns):
            await asyncio.sleep(0)
        proxy.server.drop_connections()
        await asyncio.wait({calling}, timeout=20)
        assert calling.done()
        if (error := calling.exception()) is not None:
            assert isinstance(error, aiohttp.ClientError)
    assert (await client.call("one_echo", {"x": 1})).text == '{"x": 1}'
    await eventually(lambda: proxy.report("one").in_flight == 0)
