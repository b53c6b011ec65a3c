"""Whatever clients post and backends answer: a client gets a JSON-RPC response, and everybody else notices nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.spec import Timeouts
from tests.backends.calls import DONE, Call
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.client import Client
from tests.proxy.desired import http
from tests.proxy.json_texts import json_texts
from tests.proxy.running import RunningProxy

FUZZ = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
METHODS = st.sampled_from(
    [
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "logging/setLevel",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "",
    ]
).map(json.dumps)
VALUES = json_texts(" \n")


def as_object(members: dict[str, str]) -> str:
    """The text of an object."""
    return "".join(["{", ",".join(f"{key}:{value}" for key, value in members.items()), "}"])


NAMES = st.sampled_from(
    ['"one_bump"', '"one_nothing"', '"doc://one/a"', '"ref/prompt"', '"ref/resource"', '"debug"', "null", "7"]
)
MEMBERS = st.sampled_from(
    ["name", "uri", "arguments", "_meta", "ref", "type", "argument", "level", "cursor", "requestId", "progressToken"]
)
PARAMS = st.one_of(
    VALUES,
    st.dictionaries(MEMBERS.map(json.dumps), st.one_of(NAMES, VALUES), max_size=4).map(as_object),
)
IDS = st.sampled_from(["1", '"a"', "null", "1.5", "true", "{}"])


def messages(ids: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text that looks like a JSON-RPC message, more or less."""
    members = {
        '"jsonrpc"': st.sampled_from(['"2.0"', '"2.0"', "2", "null"]),
        '"id"': ids,
        '"method"': st.one_of(METHODS, METHODS, METHODS, VALUES),
        '"params"': PARAMS,
        '"result"': VALUES,
        '"error"': VALUES,
    }
    return st.fixed_dictionaries({}, optional=members).map(as_object)


@pytest.fixture
async def client(proxy: RunningProxy, backend: ScriptedBackend) -> Client:
    """A client, with one connection mounted and used."""
    await proxy.apply(http("one", backend.url, timeouts=Timeouts(request=2)))
    client = await proxy.client()
    await client.call("one_bump")
    return client


@FUZZ
@given(
    message=st.one_of(messages(st.one_of(IDS, VALUES)), VALUES), version=st.sampled_from(["2025-11-25", "2025-03-26"])
)
async def test_whatever_a_client_posts_is_answered_or_refused(client: Client, message: str, version: str) -> None:
    answer = await client.post(message.encode(), mcp_protocol_version=version)
    assert answer.status in (200, 202, 400)
    if answer.status != 202:
        response = answer.response
        assert response["jsonrpc"] == "2.0"
        assert ("result" in response) != ("error" in response)
    assert (await client.request("ping")).result == {}


ANY_MESSAGE = messages(st.one_of(st.just("%d"), IDS))
"""%d stands for the id of the request."""
ANSWERS = st.one_of(
    ANY_MESSAGE.map(str.encode),
    VALUES.map(str.encode),
    st.binary(max_size=60),
    VALUES.map(lambda result: f'{{"jsonrpc":"2.0","id":%d,"result":{result}}}'.encode()),
    VALUES.map(lambda error: f'{{"jsonrpc":"2.0","id":%d,"error":{error}}}'.encode()),
    st.lists(ANY_MESSAGE, max_size=3).map(lambda batch: f"[{','.join(batch)}]".encode()),
)


@FUZZ
@given(
    body=ANSWERS,
    status=st.sampled_from([200, 200, 200, 200, 202, 204, 400, 404, 500]),
    content_type=st.sampled_from(["application/json", "text/event-stream", "text/html", ""]),
)
async def test_whatever_a_backend_answers_a_client_gets_a_response(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, body: bytes, status: int, content_type: str
) -> None:
    async def answer(seen: Seen) -> HttpAnswer | None:
        if seen.rpc != "tools/call":
            return None
        whole = body.replace(b"%d", b"%d" % seen.message["id"])
        if content_type == "text/event-stream":
            whole = b"data: " + whole.replace(b"\n", b"\ndata: ") + b"\n\n"
        headers = {"content-type": content_type} if content_type else {}
        return HttpAnswer(status, b"" if status == 204 else whole, headers)

    backend.intercept = answer
    relayed = await client.request("tools/call", {"name": "one_bump"}, request_id=77)
    assert relayed.status == 200
    response = relayed.response
    assert response["id"] == 77
    assert "result" in response or "error" in response
    backend.intercept = None
    assert int((await client.call("one_bump")).text) > 0


@FUZZ
@given(events=st.lists(st.one_of(messages(IDS).map(str.encode), st.binary(max_size=40)), max_size=5))
async def test_whatever_a_backend_sends_beside_its_answer_does_no_harm(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, events: list[bytes]
) -> None:
    async def handler(call: Call) -> Any:
        for event in events:
            call.put(b"data: " + event.replace(b"\n", b"\ndata: ") + b"\n\n", raw=True)
        call.respond({"content": [], "done": True})
        return DONE

    backend.tools["bump"] = handler
    relayed = await client.request("tools/call", {"name": "one_bump", "_meta": {"progressToken": 5}})
    assert relayed.response.get("result") == {"content": [], "done": True} or "error" in relayed.response
    assert (await client.request("ping")).result == {}


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Faults of others are no defects of ours: none may be logged as such, none may reach the event loop."""
    caplog.set_level(logging.ERROR)
    yield
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_listening_backend_may_send_anything(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    (session,) = backend.live
    await backend.until(lambda: session.listening)
    odd = [
        b"null",
        b"7",
        b"[]",
        b"{}",
        b'{"method":7}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"method":"x","id":{}}',
    ]
    for message in odd:
        session.outbox.put_nowait(message)
    session.notify("notifications/progress", {"progressToken": [], "progress": None})
    session.notify("notifications/cancelled", {})
    session.notify("notifications/resources/updated", 7)
    backend.tool("late")
    session.notify("notifications/tools/list_changed")
    await proxy.until(lambda: "one_late" in proxy.report("one").catalog.names)
