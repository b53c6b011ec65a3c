"""Handshake clients in front of backends that ask questions, those too that do it by ``input_required``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.clients.features import FORM, SAMPLE, URL, Message
from tests.clients.site import BACKENDS, HANDSHAKE, ROOTS, SAMPLED, Site, declined
from tests.proxy.running import eventually

QUESTIONS = [
    ("sample", "sampling/createMessage", SAMPLE, ["model-1", "endTurn", SAMPLED["content"]]),
    ("form", "elicitation/create", FORM, ["accept", {"name": "Ada"}]),
    ("login", "elicitation/create", URL, "accept"),
    ("roots", "roots/list", {}, ROOTS),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("listening", [True, False], ids=["listening", "deaf"])
@pytest.mark.parametrize(("tool", "method", "params", "outcome"), QUESTIONS, ids=[each[0] for each in QUESTIONS])
async def test_a_question_is_asked_and_its_answer_arrives(
    site: Site, backend: str, listening: bool, tool: str, method: str, params: Message, outcome: Any
) -> None:
    """A client that has no GET stream, which is its choice, is asked on the stream of its call."""
    client = await site.handshake_client(listening=listening)
    async with asyncio.timeout(20):
        answer = await client.call(f"{backend}_{tool}")
    (question,) = client.asked
    assert question["method"] == method
    if tool == "login" and backend.startswith("s"):
        # 2025-11-25 requires an id, which 2026-07-28 does not have.
        assert question["params"].pop("elicitationId")
        params = {key: value for key, value in params.items() if key != "elicitationId"}
    assert question["params"] == params
    assert (answer.text if isinstance(outcome, str) else json.loads(answer.text)) == outcome
    assert "inputRequests" not in answer.result


REQUESTS = [("prompts/get", "name", "{}_asking"), ("resources/read", "uri", "doc://{}/asking")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("method", "member", "public"), REQUESTS)
async def test_prompts_and_resources_can_ask_too(
    site: Site, backend: str, method: str, member: str, public: str
) -> None:
    client = await site.handshake_client()
    result = (await client.request(method, {member: public.format(backend)})).result
    assert "Ada" in json.dumps(result)
    assert [each["method"] for each in client.asked] == ["elicitation/create"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_several_rounds_the_first_of_several_questions(site: Site, backend: str) -> None:
    client = await site.handshake_client()
    answer = await client.call(f"{backend}_rounds")
    assert json.loads(answer.text) == ["Ada", 1, "accept"]
    first, second, third, fourth = client.asked
    assert sorted(each["method"] for each in (first, second)) == ["elicitation/create", "roots/list"]
    assert third["params"]["systemPrompt"] == "You are Ada."
    assert fourth["params"]["message"] == "model-1"
    assert len({each["id"] for each in client.asked}) == 4


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_client_that_refuses_is_an_error_of_the_call(site: Site, backend: str) -> None:
    client = await site.handshake_client()
    client.answerers["elicitation/create"] = declined
    error = (await client.call(f"{backend}_form")).error
    assert "the user is away" in error["message"]
    assert json.loads((await client.call(f"{backend}_roots")).text) == ROOTS, "the session goes on"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_client_is_not_asked_what_it_did_not_declare(site: Site, backend: str) -> None:
    client = await site.handshake_client(capabilities={"roots": {}})
    error = (await client.call(f"{backend}_sample")).error
    assert client.asked == []
    if backend.startswith("h"):
        assert "did not declare" in error["message"]
    else:
        assert error["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert json.loads((await client.call(f"{backend}_roots")).text) == ROOTS


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_client_that_knows_forms_only_is_not_sent_to_a_page(site: Site, backend: str) -> None:
    client = await site.handshake_client(capabilities={"elicitation": {}})
    error = (await client.call(f"{backend}_login")).error
    assert "url" in error["message"]
    assert client.asked == []


@pytest.mark.parametrize("backend", BACKENDS)
async def test_two_clients_are_asked_each_for_itself(site: Site, backend: str) -> None:
    clients = [await site.handshake_client(name=f"client-{number}") for number in range(2)]

    def named(number: int) -> Any:
        async def elicit(message: Message) -> Message:
            await asyncio.sleep(0.01 * (2 - number))
            return {"action": "accept", "content": {"name": f"user-{number}"}}

        return elicit

    for number, client in enumerate(clients):
        client.answerers["elicitation/create"] = named(number)
    answers = await asyncio.gather(*(client.call(f"{backend}_form") for client in clients))
    assert [json.loads(answer.text)[1]["name"] for answer in answers] == ["user-0", "user-1"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_cancelling_the_call_cancels_it_at_the_backend(site: Site, backend: str) -> None:
    client = await site.handshake_client()
    call = asyncio.create_task(client.request("tools/call", {"name": f"{backend}_wait"}, request_id=77))
    mount = site.proxy.mount(backend)
    await eventually(lambda: mount.in_flight == 1)
    await client.notify("notifications/cancelled", {"requestId": 77, "reason": "enough"})
    await call
    await eventually(lambda: mount.in_flight == 0)
    if backend in site.http:
        features = site.http[backend].features
        await eventually(lambda: any(each.cancelled.is_set() for each in features.seen))


@pytest.mark.parametrize("backend", HANDSHAKE)
async def test_changed_roots_are_told_to_backends_that_keep_sessions(site: Site, backend: str) -> None:
    client = await site.handshake_client()
    await client.call(f"{backend}_echo")
    assert await client.notify("notifications/roots/list_changed") == 202
    if backend in site.http:
        sessions = site.http[backend].sessions
        await eventually(lambda: sum(each.roots_changed for each in sessions.values()) == 1)
