"""What backends ask of clients: sampling, elicitation, roots, on either stream, and whose answer goes where."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from mcp_connections.proxy.downstream import client_session
from tests.backends.calls import Call, Gate
from tests.backends.scripted import ScriptedBackend, text
from tests.proxy.client import Client, Declined
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

ALL = {"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
SAMPLING = (
    b'{"messages":[{"role":"user","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}],"maxTokens":100,'
    b'"temperature":0.70,"modelPreferences":{"hints":[{"name":"x"}],"costPriority":1.0},"includeContext":"thisServer",'
    b'"metadata":{"n":9007199254740993},"stopSequences":[],"tools":[{"name":"t","inputSchema":{}}]}'
)
QUESTIONS = {
    "sampling/createMessage": SAMPLING,
    "elicitation/create": b'{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"maximum":1.0}}}}',
    "roots/list": b'{"_meta":{"x":1.0}}',
    "vendor/question": b'{"any":[1.0]}',
}
URL = b'{"mode":"url","message":"Sign in","url":"https://idp.example/auth?x=1","elicitationId":"e-1"}'


async def connected(proxy: RunningProxy, backend: ScriptedBackend, **hello: Any) -> Client:
    """A client with all capabilities, that listens and has a session with the backend."""
    await proxy.apply(http("one", backend.url, **hello.pop("fields", {})))
    client = await proxy.client(listening=True, capabilities=hello.pop("capabilities", ALL), **hello)
    await client.call("one_bump")
    return client


def answers(client: Client, method: str, result: Any) -> None:
    async def answer(message: dict[str, Any]) -> Any:
        return result

    client.answerers[method] = answer


def asking(method: str, params: bytes) -> Any:
    """A tool that asks on the stream of its call and returns the whole response it got."""

    async def handler(call: Call) -> Any:
        return text(json.dumps(await call.ask(method, params)))

    return handler


@pytest.mark.parametrize("method", QUESTIONS)
async def test_a_question_on_the_stream_of_a_call_reaches_its_client_and_back(
    proxy: RunningProxy, backend: ScriptedBackend, method: str
) -> None:
    backend.tool("ask", asking(method, QUESTIONS[method]))
    client = await connected(proxy, backend)
    answers(client, method, {"model": "my-model", "stopReason": "maxTokens", "roots": [], "action": "accept"})
    answer = await client.call("one_ask")
    assert json.loads(answer.text)["result"] == {
        "model": "my-model",
        "stopReason": "maxTokens",
        "roots": [],
        "action": "accept",
    }
    question = msgspec.json.decode(answer.messages[0], type=dict[str, msgspec.Raw])
    assert bytes(question["params"]) == QUESTIONS[method]
    assert client.heard_of(method) == [], "a question that belongs to a call is asked on its stream"


@pytest.mark.parametrize("method", QUESTIONS)
async def test_a_question_on_the_get_stream_reaches_the_client_and_back(
    proxy: RunningProxy, backend: ScriptedBackend, method: str
) -> None:
    client = await connected(proxy, backend)
    answers(client, method, {"n": 1})
    (session,) = backend.client_sessions
    await backend.until(lambda: session.listening)
    async with asyncio.timeout(20):
        assert (await session.ask(method, QUESTIONS[method]))["result"] == {"n": 1}
    (question,) = client.heard_of(method)
    assert question["params"] == json.loads(QUESTIONS[method])


async def test_a_client_that_takes_no_stream_for_its_call_is_asked_on_its_get_stream(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("ask", asking("roots/list", b"{}"))
    client = await connected(proxy, backend)
    answers(client, "roots/list", {"roots": []})
    call = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"one_ask"}}'
    answer = await client.post(call, accept="application/json")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.text)["result"] == {"roots": []}
    assert len(client.heard_of("roots/list")) == 1


async def test_an_answer_reaches_the_backend_as_it_was_spelled(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    result = b'{"role":"assistant","content":{"type":"text","text":"\\u00e9"},"model":"m","n":9007199254740993,"x":1.0}'
    gate = Gate()

    async def handler(call: Call) -> Any:
        await call.ask("sampling/createMessage", SAMPLING)
        return await gate.handle(call)

    backend.tool("ask", handler)
    client = await connected(proxy, backend)
    calling = asyncio.create_task(client.call("one_ask"))
    await client.until_streamed("sampling/createMessage")
    question = json.dumps(client.asked[0]["id"]).encode()
    assert (await client.post(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (question, result))).status == 202
    await gate.arrived()
    answered = [seen for seen in backend.requests if b'"content":{"type":"text"' in seen.body]
    assert bytes(msgspec.json.decode(answered[0].body, type=dict[str, msgspec.Raw])["result"]) == result
    gate.open()
    await calling


async def test_an_error_in_answer_to_a_question_reaches_the_backend(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("ask", asking("roots/list", b"{}"))
    client = await connected(proxy, backend)

    async def decline(message: dict[str, Any]) -> Any:
        raise Declined("not today")

    client.answerers["roots/list"] = decline
    assert json.loads((await client.call("one_ask")).text)["error"] == {"code": -1, "message": "not today"}


async def test_url_elicitation_is_passed_on_as_it_is(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.tool("ask", asking("elicitation/create", URL))
    client = await connected(proxy, backend)
    answers(client, "elicitation/create", {"action": "accept"})
    answer = await client.call("one_ask")
    assert bytes(msgspec.json.decode(answer.messages[0], type=dict[str, msgspec.Raw])["params"]) == URL
    (session,) = backend.client_sessions
    session.notify("notifications/elicitation/complete", {"elicitationId": "e-1"})
    assert (await client.hear("notifications/elicitation/complete"))["params"] == {"elicitationId": "e-1"}


@pytest.mark.parametrize(
    ("method", "params", "capabilities"),
    [
        ("sampling/createMessage", SAMPLING, {"elicitation": {}, "roots": {}}),
        ("elicitation/create", QUESTIONS["elicitation/create"], {"sampling": {}}),
        ("roots/list", b"{}", {}),
        ("elicitation/create", URL, {"elicitation": {}}),
        ("elicitation/create", URL, {"elicitation": {"form": {}}}),
    ],
)
async def test_a_client_is_not_asked_what_it_did_not_declare(
    proxy: RunningProxy, backend: ScriptedBackend, method: str, params: bytes, capabilities: dict[str, Any]
) -> None:
    backend.tool("ask", asking(method, params))
    client = await connected(proxy, backend, capabilities=capabilities)
    (session,) = backend.client_sessions
    assert session.hello["capabilities"] == capabilities, "the backend was told what the client can"
    error = json.loads((await client.call("one_ask")).text)["error"]
    assert error["code"] in (-32601, -32602)
    assert "does not support" in error["message"]
    assert client.asked == []


async def test_each_client_is_asked_for_itself(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.tool("ask", asking("roots/list", b"{}"))
    first = await connected(proxy, backend)
    second = await proxy.client(capabilities=ALL)
    for client, name in ((first, "first"), (second, "second")):
        answers(client, "roots/list", {"roots": [], "of": name})
    results = await asyncio.gather(*(client.call("one_ask") for client in (first, second) * 10))
    whose = [json.loads(each.text)["result"]["of"] for each in results]
    assert whose == ["first", "second"] * 10


async def test_in_a_shared_session_the_client_of_the_call_is_asked(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("ask", asking("roots/list", b"{}"))
    first = await connected(proxy, backend, fields={"session": "Shared"})
    second = await proxy.client(capabilities=ALL)
    for client, name in ((first, "first"), (second, "second")):
        answers(client, "roots/list", {"roots": [], "of": name})
    results = await asyncio.gather(*(client.call("one_ask") for client in (first, second) * 5))
    assert [json.loads(each.text)["result"]["of"] for each in results] == ["first", "second"] * 5


async def test_in_a_shared_session_a_question_of_no_call_is_refused(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    client = await connected(proxy, backend, fields={"session": "Shared"})
    backend.resource("doc://a")
    await client.request("resources/subscribe", {"uri": "doc://one/a"})
    (session,) = [each for each in backend.live if each.counter]
    await backend.until(lambda: session.listening)
    async with asyncio.timeout(20):
        error = (await session.ask("roots/list"))["error"]
    assert error["code"] == -32601
    assert "shared by several clients" in error["message"]
    assert client.asked == []


async def test_the_proxys_own_session_is_not_for_questions(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    (control,) = backend.live
    await backend.until(lambda: control.listening)
    async with asyncio.timeout(20):
        assert (await control.ask("sampling/createMessage", SAMPLING))["error"]["code"] == -32601
        assert (await control.ask("ping"))["result"] == {}
    assert control.hello["capabilities"] == {}
    assert control.hello["clientInfo"]["name"] == "mcp-connections"


async def test_a_ping_of_the_backend_is_answered_for_the_client(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    client = await connected(proxy, backend)
    (session,) = backend.client_sessions
    await backend.until(lambda: session.listening)
    async with asyncio.timeout(20):
        assert (await session.ask("ping"))["result"] == {}
    assert client.asked == []


async def test_a_question_is_withdrawn_when_the_backend_cancels_it(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    async def handler(call: Call) -> Any:
        question, _ = call.session.question()
        call.put(b'{"jsonrpc":"2.0","id":"%s","method":"roots/list"}' % question.encode())
        call.notify("notifications/cancelled", {"requestId": question, "reason": "too slow"})
        call.notify("notifications/cancelled", {"requestId": "never-asked"})
        return text("done")

    backend.tool("ask", handler)
    client = await connected(proxy, backend)
    asked, cancelled = (await client.call("one_ask")).notifications
    assert cancelled["params"] == {"requestId": asked["id"], "reason": "too slow"}


async def test_answers_nobody_asked_for_are_dropped(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.tool("ask", asking("roots/list", b"{}"))
    client, other = await connected(proxy, backend), await proxy.client(capabilities=ALL)
    calling = asyncio.create_task(client.call("one_ask"))
    await client.until_streamed("roots/list")
    question = client.asked[0]["id"]
    responses = len([seen for seen in backend.requests if seen.message and "result" in seen.message])
    for bad in (question + "0", 1, None, {"a": 1}):
        assert (await client.post(json.dumps({"jsonrpc": "2.0", "id": bad, "result": {}}).encode())).status == 202
    body = json.dumps({"jsonrpc": "2.0", "id": question, "result": {"of": "another client"}}).encode()
    assert (await other.post(body)).status == 202
    assert not calling.done()
    good = json.dumps({"jsonrpc": "2.0", "id": question, "result": {"of": "the right one"}}).encode()
    assert (await client.post(good)).status == 202
    assert json.loads((await calling).text)["result"] == {"of": "the right one"}
    assert (await client.post(good)).status == 202, "a second answer is dropped too"
    answered = [seen for seen in backend.requests if seen.message and "result" in seen.message]
    assert len(answered) == responses + 1


async def test_unanswered_questions_are_bounded_and_end_with_their_session(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_session, "MAX_QUESTIONS", 3)
    client = await connected(proxy, backend)
    (session,) = backend.client_sessions
    await backend.until(lambda: session.listening)
    unanswered = [asyncio.create_task(session.ask("roots/list")) for _ in range(3)]
    await client.hear("roots/list", 3)
    async with asyncio.timeout(20):
        error = (await session.ask("roots/list"))["error"]
    assert "unanswered requests" in error["message"]
    for task in unanswered:
        task.cancel()

    backend.lose_sessions()
    answers(client, "roots/list", {"roots": []})
    await client.call("one_bump")
    (again,) = [each for each in backend.live if each.counter]
    await backend.until(lambda: again.listening)
    async with asyncio.timeout(20):
        assert (await again.ask("roots/list"))["result"] == {"roots": []}, "questions of the lost session count no more"


async def test_a_question_waits_for_a_client_that_opens_its_stream_later(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    client = await connected(proxy, backend)
    answers(client, "roots/list", {"roots": []})
    (session,) = backend.client_sessions
    await backend.until(lambda: session.listening)
    await client.unlisten()
    await eventually(lambda: not any(each.listening for each in proxy_sessions(proxy)))
    asked = asyncio.create_task(session.ask("roots/list"))
    await asyncio.sleep(0.05)
    assert not asked.done()
    await client.listen()
    async with asyncio.timeout(20):
        assert (await asked)["result"] == {"roots": []}


def proxy_sessions(proxy: RunningProxy) -> list[client_session.ClientSession]:
    return list(proxy.process.sessions._sessions.values())  # noqa: SLF001


async def test_while_a_person_is_asked_the_call_is_not_timed_out(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    from mcp_connections.mounts.spec import Timeouts

    backend.tool("ask", asking("elicitation/create", QUESTIONS["elicitation/create"]))
    client = await connected(proxy, backend, fields={"timeouts": Timeouts(request=0.3, max=20)})

    async def think(message: dict[str, Any]) -> Any:
        await asyncio.sleep(0.8)
        return {"action": "decline"}

    client.answerers["elicitation/create"] = think
    assert json.loads((await client.call("one_ask")).text)["result"] == {"action": "decline"}
