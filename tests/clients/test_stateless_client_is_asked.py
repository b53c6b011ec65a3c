"""Stateless clients in front of backends that ask questions: each becomes an ``input_required`` result and a retry.

(MCP 2026-07-28, basic/patterns/mrtr.)
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_connections.proxy.downstream.stateless import suspended_call
from tests.clients.features import FORM, SAMPLE, URL, Message
from tests.clients.site import BACKENDS, HANDSHAKE, ROOTS, SAMPLED, Site, answers_to, elicited
from tests.clients.stateless_client import StatelessClient
from tests.proxy.client import Answer
from tests.proxy.running import eventually


async def asked(client: StatelessClient, tool: str, **params: Any) -> Message:
    """The ``input_required`` result of a call."""
    result: Message = (await client.call(tool, **params)).result
    assert result["resultType"] == "input_required", result
    return result


async def retry(client: StatelessClient, tool: str, wanted: Message, **params: Any) -> Answer:
    """The same call with everything answered."""
    return await client.call(
        tool, inputResponses=await answers_to(wanted), requestState=wanted["requestState"], **params
    )


QUESTIONS = [
    ("sample", "sampling/createMessage", SAMPLE, ["model-1", "endTurn", SAMPLED["content"]]),
    ("form", "elicitation/create", FORM, ["accept", {"name": "Ada"}]),
    ("login", "elicitation/create", URL, "accept"),
    ("roots", "roots/list", {}, ROOTS),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("tool", "method", "params", "outcome"), QUESTIONS, ids=[each[0] for each in QUESTIONS])
async def test_a_question_is_asked_and_its_answer_arrives(
    site: Site, backend: str, tool: str, method: str, params: Message, outcome: Any
) -> None:
    client = site.stateless_client()
    wanted = await asked(client, f"{backend}_{tool}")
    (question,) = wanted["inputRequests"].values()
    if not backend.startswith("h"):
        params = {key: value for key, value in params.items() if key != "elicitationId"}
    assert question == {"method": method, "params": params}
    result = (await retry(client, f"{backend}_{tool}", wanted)).result
    assert result["resultType"] == "complete"
    text = result["content"][0]["text"]
    assert (text if isinstance(outcome, str) else json.loads(text)) == outcome


REQUESTS = [("prompts/get", "name", "{}_asking"), ("resources/read", "uri", "doc://{}/asking")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("method", "member", "public"), REQUESTS)
async def test_prompts_and_resources_can_ask_too(
    site: Site, backend: str, method: str, member: str, public: str
) -> None:
    client = site.stateless_client()
    params = {member: public.format(backend)}
    wanted = (await client.request(method, params)).result
    assert wanted["resultType"] == "input_required"
    assert "ttlMs" not in wanted, "what is asked is not cached"
    answers = {"inputResponses": await answers_to(wanted), "requestState": wanted["requestState"]}
    result = (await client.request(method, {**params, **answers})).result
    assert result["resultType"] == "complete"
    assert "Ada" in json.dumps(result)


async def test_a_question_of_a_request_that_cannot_ask_goes_to_no_other(site: Site) -> None:
    """A completion has no way to ask (basic/patterns/mrtr, Supported Requests), and a call under way has its own.
    (Over stdio nothing says whose a question is.)"""
    client = site.stateless_client()
    wanted = await asked(client, "hh_form")
    reference = {"type": "ref/prompt", "name": "hh_greet"}
    params = {"ref": reference, "argument": {"name": "asking", "value": ""}}
    completion = await client.request("completion/complete", params)
    assert "belongs to" in completion.error["message"]
    answer = await retry(client, "hh_form", wanted)
    assert json.loads(answer.text) == ["accept", {"name": "Ada"}]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_several_rounds_the_first_of_several_questions(site: Site, backend: str) -> None:
    client = site.stateless_client()
    tool = f"{backend}_rounds"
    rounds = []
    answer = await client.call(tool)
    while answer.result["resultType"] == "input_required":
        rounds.append(sorted(each["method"] for each in answer.result["inputRequests"].values()))
        answer = await retry(client, tool, answer.result)
    assert rounds == [["elicitation/create", "roots/list"], ["sampling/createMessage"], ["elicitation/create"]]
    assert json.loads(answer.text) == ["Ada", 1, "accept"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_was_not_answered_is_asked_again(site: Site, backend: str) -> None:
    client = site.stateless_client()
    tool = f"{backend}_rounds"
    wanted = await asked(client, tool)
    form, roots = (
        next(key for key, each in wanted["inputRequests"].items() if each["method"] == method)
        for method in ("elicitation/create", "roots/list")
    )
    some = {form: await elicited(wanted["inputRequests"][form]), "unheard-of": {}}
    again = await asked(client, tool, inputResponses=some, requestState=wanted["requestState"])
    assert [each["method"] for each in again["inputRequests"].values()] == ["roots/list"]
    nothing = await asked(client, tool, requestState=again["requestState"])
    assert nothing["inputRequests"] == again["inputRequests"]
    assert list(again["inputRequests"]) == [roots]
    last = await retry(client, tool, nothing)
    assert [each["method"] for each in last.result["inputRequests"].values()] == ["sampling/createMessage"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_progress_after_an_answer_has_the_token_of_the_retry(site: Site, backend: str) -> None:
    client = site.stateless_client()
    params: Message = {"name": f"{backend}_form_then_count"}
    wanted = (await client.request("tools/call", params, meta={"progressToken": "first"})).result
    params |= {"inputResponses": await answers_to(wanted), "requestState": wanted["requestState"]}
    answer = await client.request("tools/call", params, meta={"progressToken": "second"})
    assert answer.text == "counted"
    assert [each["params"]["progressToken"] for each in answer.notifications] == ["second"] * 3
    wanted = (await client.request("tools/call", {"name": f"{backend}_form_then_count"})).result
    params |= {"inputResponses": await answers_to(wanted), "requestState": wanted["requestState"]}
    assert (await client.request("tools/call", params)).notifications == []


@pytest.mark.parametrize("backend", HANDSHAKE)
@pytest.mark.parametrize("state", ["", "bm9uc2Vuc2U=", "mcp-connections.unknown"])
async def test_a_state_of_nobodys_making_is_refused(site: Site, backend: str, state: str) -> None:
    """Running the call anew would do twice what a client believes to continue."""
    client = site.stateless_client()
    answer = await client.call(f"{backend}_echo", inputResponses={}, requestState=state)
    assert answer.status == 400
    assert answer.error["code"] == -32602
    assert "requestState" in answer.error["message"]


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_a_state_is_good_for_its_own_request_only(site: Site, backend: str) -> None:
    client = site.stateless_client()
    other = site.stateless_client(name="other")
    wanted = await asked(client, f"{backend}_form", arguments={"a": 1})
    refused = [
        await retry(client, f"{backend}_form", wanted, arguments={"a": 2}),
        await retry(client, f"{backend}_login", wanted, arguments={"a": 1}),
        await retry(other, f"{backend}_form", wanted, arguments={"a": 1}),
    ]
    for answer in refused:
        assert answer.error["code"] == -32602
        assert "requestState" in answer.error["message"]
    answer = await retry(client, f"{backend}_form", wanted, arguments={"a": 1})
    assert json.loads(answer.text) == ["accept", {"name": "Ada"}], "what others tried has spoilt nothing"
    again = await retry(client, f"{backend}_form", wanted, arguments={"a": 1})
    assert again.error["code"] == -32602, "once only"


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_a_state_expires_and_its_call_is_cancelled(
    site: Site, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspended_call, "SUSPENDED_SECONDS", 0.05)
    client = site.stateless_client()
    wanted = await asked(client, f"{backend}_form")
    await eventually(lambda: site.proxy.mount(backend).in_flight == 0)
    answer = await retry(client, f"{backend}_form", wanted)
    assert answer.error["code"] == -32602
    assert "expired" in answer.error["message"]


NARROW: list[Message] = [{}, {"roots": {}}, {"elicitation": {}, "roots": {}}]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("capabilities", NARROW, ids=",".join)
async def test_a_client_is_not_asked_what_it_did_not_declare(site: Site, backend: str, capabilities: Message) -> None:
    client = site.stateless_client(capabilities=capabilities)
    answer = await client.call(f"{backend}_sample")
    if backend.startswith("h"):
        assert "did not declare" in answer.error["message"]
    else:
        assert answer.status == 400
        assert answer.error["code"] == -32021
        assert answer.error["data"] == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_a_client_that_knows_forms_only_is_not_sent_to_a_page(site: Site, backend: str) -> None:
    client = site.stateless_client(capabilities={"elicitation": {}})
    assert "url" in (await client.call(f"{backend}_login")).error["message"]
    assert (await asked(client, f"{backend}_form"))["inputRequests"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_client_that_goes_away_cancels_its_call(site: Site, backend: str) -> None:
    client = site.stateless_client()
    params = {"name": f"{backend}_wait", "arguments": {}, "_meta": client.meta()}
    mount = site.proxy.mount(backend)
    call = asyncio.create_task(client.post(client.body("tools/call", params), client.headers("tools/call", params)))
    await eventually(lambda: mount.in_flight == 1)
    call.cancel()
    await eventually(lambda: mount.in_flight == 0)
    if backend in site.http:
        features = site.http[backend].features
        await eventually(lambda: any(each.cancelled.is_set() for each in features.seen))


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_a_client_that_comes_back_after_its_connection_was_removed_is_told(site: Site, backend: str) -> None:
    client = site.stateless_client()
    wanted = await asked(client, f"{backend}_form")
    assert site.proxy.mount(backend).in_flight == 1
    await site.proxy.apply(drain_timeout=0.1)
    await eventually(lambda: all(each.state == "Closed" for each in site.proxy.registry.report().retired))
    answer = await retry(client, f"{backend}_form", wanted)
    assert "retired" in answer.error["message"]


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_url_elicitation_by_error_becomes_a_question(site: Site, backend: str) -> None:
    """-32042 must not be emitted any more (basic/index, "Error Codes"): the client is asked to visit the page, and its
    retry is the call that 2025-11-25 has a client make after that."""
    client = site.stateless_client()
    wanted = await asked(client, f"{backend}_login_first", arguments={"a": 1})
    assert list(wanted["inputRequests"].values()) == [{"method": "elicitation/create", "params": URL}]
    answer = await client.call(
        f"{backend}_login_first",
        {"a": 1},
        inputResponses=await answers_to(wanted),
        **({"requestState": wanted["requestState"]} if "requestState" in wanted else {}),
    )
    assert answer.text == "let in"


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_url_elicitation_by_error_needs_a_client_that_can(site: Site, backend: str) -> None:
    client = site.stateless_client(capabilities={"elicitation": {}})
    answer = await client.call(f"{backend}_login_first")
    assert answer.status == 400
    assert answer.error["code"] == -32021
    assert answer.error["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}
