"""A relay is not the author: what a backend answers, and what a client sends, arrives byte for byte."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.backends.calls import Call, RpcFault
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.client import Client
from tests.proxy.desired import http
from tests.proxy.json_texts import deep, objects
from tests.proxy.running import RunningProxy

BIG = 3 * 1024 * 1024
SPELLINGS = (
    b'{"content":[],"big":12345678901234567890123456789012345678901234567890,"beyond":9007199254740993,'
    b'"exact":0.1000000000000000055511151231257827021181583404541015625,"exponent":1E+2,"zero":-0,"negative":-0.0,'
    b'"escaped":"\\u00e9\\/\\u0041","plain":"\xc3\xa9","pair":"\\ud83d\\ude00","twice":1,"twice":2 , "s" : [ 1,2 ],'
    b'"isError":false,"_meta":{"vendor/key":{"n":1.50}},"unknown":null,"empty":"","none":{},"list":[]}'
)


@dataclass
class Wire:
    """A client, a backend whose tool answers with given bytes, and the proxy between them."""

    client: Client
    backend: ScriptedBackend
    answer: bytes = b"{}"
    progress: bool = False

    async def handle(self, call: Call) -> Any:
        if self.progress:
            call.progress(1)
        return self.answer

    async def relay(self, answer: bytes, **params: Any) -> bytes:
        """What the client gets as the result."""
        self.answer = answer
        return (await self.client.call("one_raw", **params)).raw()


@pytest.fixture(params=["json", "sse"])
async def wire(request: pytest.FixtureRequest, proxy: RunningProxy, backend: ScriptedBackend) -> Wire:
    """The wire with a backend that answers in one of the two ways."""
    backend.answers_with_sse = request.param == "sse"
    wire = Wire(await proxy.client(), backend)
    backend.tool("raw", wire.handle)
    await proxy.apply(http("one", backend.url))
    return wire


async def test_results_arrive_as_they_were_spelled(wire: Wire) -> None:
    assert await wire.relay(SPELLINGS) == SPELLINGS


async def test_results_arrive_as_they_were_spelled_behind_progress(wire: Wire) -> None:
    wire.progress = True
    assert await wire.relay(SPELLINGS, _meta={"progressToken": "t"}) == SPELLINGS


@pytest.mark.parametrize("answer", [b"null", b"[1]", b"17", b'"text"', b"{ }"])
async def test_results_of_any_shape_are_passed_on(wire: Wire, answer: bytes) -> None:
    assert await wire.relay(answer) == answer


async def test_results_of_three_mebibytes_arrive_whole(wire: Wire) -> None:
    text = json.dumps("ünï \n" * (BIG // 6), ensure_ascii=False).encode()
    assert len(text) > BIG
    answer = b'{"content":[{"type":"text","text":%s}],"n":1.0}' % text
    assert await wire.relay(answer) == answer
    wire.progress = True
    assert await wire.relay(answer, _meta={"progressToken": 1}) == answer


async def test_several_large_results_at_once_do_not_mix(wire: Wire) -> None:
    async def answer(call: Call) -> Any:
        return b'{"content":[],"who":"%s"}' % (call.arguments["who"].encode() * 200_000)

    wire.backend.tools["raw"] = answer
    names = [chr(ord("a") + number) for number in range(8)]
    answers = await asyncio.gather(*(wire.client.call("one_raw", {"who": name}) for name in names))
    for name, each in zip(names, answers, strict=True):
        assert each.raw() == b'{"content":[],"who":"%s"}' % (name.encode() * 200_000)


async def test_arguments_of_three_mebibytes_arrive_whole(wire: Wire) -> None:
    arguments = b'{"text":"%s","n":1.00}' % (b"x" * BIG)
    await wire.client.request("tools/call", b'{"name":"one_raw","arguments":%s}' % arguments)
    (call,) = wire.backend.calls_of("raw")
    assert params_of(call)["arguments"] == arguments


async def test_requests_arrive_as_they_were_spelled(wire: Wire) -> None:
    params = (
        b'{"_meta":{"vendor/trace":[1.0,{"x":9007199254740993}]},"unknown":{"a":[]},"arguments":'
        b'{"n":12345678901234567890123456789,"s":"\\u0041\xc3\xa9","e":{},"d":1,"d":2},"name":"one_raw"}'
    )
    await wire.client.request("tools/call", params)
    (call,) = wire.backend.calls_of("raw")
    members = params_of(call)
    assert members["name"] == b'"raw"'
    assert members["arguments"] == b'{"n":12345678901234567890123456789,"s":"\\u0041\xc3\xa9","e":{},"d":1,"d":2}'
    assert members["_meta"] == b'{"vendor/trace":[1.0,{"x":9007199254740993}]}'
    assert members["unknown"] == b'{"a":[]}'
    assert set(members) == {"_meta", "unknown", "arguments", "name"}


async def test_only_the_token_in_meta_is_replaced(wire: Wire) -> None:
    meta = b'{"a":1.0,"progressToken":"t","io.vendor/b":{"n":9007199254740993}}'
    await wire.client.request("tools/call", b'{"name":"one_raw","_meta":%s}' % meta)
    (call,) = wire.backend.calls_of("raw")
    sent = {name: bytes(raw) for name, raw in msgspec.json.decode(params_of(call)["_meta"], type=Members).items()}
    assert (sent["a"], sent["io.vendor/b"]) == (b"1.0", b'{"n":9007199254740993}')
    assert sent["progressToken"] != b'"t"'


Members = dict[str, msgspec.Raw]


def params_of(seen: Seen) -> dict[str, bytes]:
    """The members of a request's params as they came."""
    message = msgspec.json.decode(seen.body, type=Members)
    return {name: bytes(raw) for name, raw in msgspec.json.decode(message["params"], type=Members).items()}


@pytest.mark.parametrize("arguments", [None, b"{}", b"null", b"[]"])
async def test_absent_empty_and_null_arguments_stay_what_they_are(wire: Wire, arguments: bytes | None) -> None:
    member = b"" if arguments is None else b',"arguments":' + arguments
    await wire.client.request("tools/call", b'{"name":"one_raw"%s}' % member)
    (call,) = wire.backend.calls_of("raw")
    assert params_of(call).get("arguments") == arguments


@pytest.mark.parametrize(
    "error",
    [
        b'{"code":-32602,"message":"bad \\u0061rgument","data":{"field":"x","big":9007199254740993}}',
        b'{"code":-32603,"message":""}',
        b'{"code":-32042,"message":"url","data":{"elicitations":[{"mode":"url","url":"https://x/y?z"}]}}',
        b'{"code":-32010,"message":"busy","data":null}',
        b'{"code":1,"message":"positive","data":[1.0],"unknown":true}',
    ],
)
async def test_errors_arrive_as_they_were_spelled(wire: Wire, error: bytes) -> None:
    async def fail(call: Call) -> Any:
        raise RpcFault(raw=error)

    wire.backend.tools["raw"] = fail
    assert (await wire.client.call("one_raw")).raw("error") == error


async def test_a_tools_own_failure_stays_a_result(wire: Wire) -> None:
    answer = (
        b'{"isError":true,"content":[{"type":"text","text":""},{"type":"image","data":"AAAA","mimeType":"image/png",'
        b'"annotations":{"priority":0.50}}],"structuredContent":{"why":null},"_meta":{"retry":1e1}}'
    )
    assert await wire.relay(answer) == answer


async def test_all_kinds_of_content_arrive_in_order(wire: Wire) -> None:
    answer = (
        b'{"content":[{"type":"text","text":"a","_meta":{"k":1}},{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},'
        b'{"type":"image","data":"iVBORw0=","mimeType":"image/png"},{"type":"future_block","x":[1.0]}]}'
    )
    assert await wire.relay(answer) == answer


@pytest.mark.parametrize("request_id", [b"0", b"7", b'"abc"', b'"7"', b"-1", b"9007199254740993", b'"\\u0041"'])
async def test_the_clients_id_comes_back_as_it_was(wire: Wire, request_id: bytes) -> None:
    answer = await wire.client.request("tools/call", {"name": "one_raw"}, request_id=request_id)
    assert answer.raw("id") == request_id
    answer = await wire.client.request("tools/list", request_id=request_id)
    assert answer.raw("id") == request_id


async def test_line_breaks_between_tokens_do_not_break_an_event_stream(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    spread = b'{\r\n  "content": [],\n  "n": 1.0,\r  "m": 2\n}'

    progressed = asyncio.Event()

    async def handle(call: Call) -> Any:
        call.session.notify("notifications/progress", {"progressToken": call.token, "progress": 1})
        await progressed.wait()
        return spread

    backend.tool("raw", handle)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    await client.call("one_bump")
    await backend.until(lambda: any(session.listening for session in backend.client_sessions))
    calling = asyncio.create_task(client.call("one_raw", _meta={"progressToken": "t"}))
    await client.until_streamed("notifications/progress")
    progressed.set()
    answer = await calling
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.notifications[0]["params"] == {"progressToken": "t", "progress": 1}
    assert answer.result == {"content": [], "n": 1.0, "m": 2}
    for session in backend.client_sessions:
        session.notify("notifications/message", b'{\n"level":"info",\n"data":1}')
    assert (await client.hear("notifications/message"))["params"] == {"level": "info", "data": 1}


async def test_a_deeply_nested_answer_costs_its_call_only(wire: Wire) -> None:
    wire.answer = b'{"content":[],"deep":%s}' % deep(200_000)
    error = (await wire.client.call("one_raw")).error
    assert error["data"] == {"connection": "team/one", "reason": "ProtocolError"}
    if not wire.backend.answers_with_sse:
        assert "nested too deeply" in error["message"]
    assert (await wire.client.call("one_bump")).text == "1"


async def test_what_is_no_json_rpc_is_a_clear_error(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    await client.call("one_bump")

    async def page(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "tools/call":
            return HttpAnswer(200, b"<html>login</html>", {"content-type": "text/html"})
        return None

    backend.intercept = page
    error = (await client.call("one_bump")).error
    assert error["data"] == {"connection": "team/one", "reason": "ProtocolError"}
    assert "text/html" in error["message"]


RELAYED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@RELAYED
@given(result=objects(" \t"))
async def test_any_result_is_relayed_unchanged(wire: Wire, result: str) -> None:
    raw = result.encode()
    if b'"uri"' not in raw:
        assert await wire.relay(raw) == raw


@RELAYED
@given(structured=objects(" \t"), link=objects(""))
async def test_structured_content_is_never_touched(wire: Wire, structured: str, link: str) -> None:
    inside = b'{"uri":"doc://a","more":%s}' % structured.encode()
    answer = b'{"content":[{"type":"resource_link","uri":"doc://a","name":"a"}],"structuredContent":%s}' % inside
    members = msgspec.json.decode(await wire.relay(answer), type=Members)
    assert bytes(members["structuredContent"]) == inside
    assert json.loads(bytes(members["content"])) == [{"type": "resource_link", "uri": "doc://one/a", "name": "a"}]


@RELAYED
@given(arguments=objects(" \t\n\r"))
async def test_any_arguments_reach_the_backend_unchanged(wire: Wire, arguments: str) -> None:
    wire.backend.requests.clear()
    await wire.client.request("tools/call", b'{"name":"one_raw","arguments":%s}' % arguments.encode())
    (call,) = wire.backend.calls_of("raw")
    assert params_of(call)["arguments"] == arguments.encode()
