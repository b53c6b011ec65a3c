"""What backends ask and what clients answer, for every pairing of eras: params and results member by member."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clients.stateless_client import StatelessClient
from tests.golden.catalogues import META, NUMBERS, OBJECTS, SCHEMAS, STYLES, TEXTS, UNKNOWN, Catalogue
from tests.golden.json_text import Style, dumps, loads
from tests.golden.relayed import PAIRS, Golden, Pair
from tests.golden.results import BLOCKS
from tests.proxy.client import Client

EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
CAPABILITIES: dict[str, Any] = {"sampling": {"tools": {}, "context": {}}, "elicitation": {}, "roots": {}}
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": BLOCKS | st.lists(BLOCKS, max_size=2)}), max_size=2
)
QUESTIONS = st.one_of(
    st.tuples(
        st.just("sampling/createMessage"),
        st.fixed_dictionaries(
            {"messages": MESSAGES, "maxTokens": NUMBERS},
            optional={
                "modelPreferences": OBJECTS,
                "systemPrompt": TEXTS,
                "includeContext": st.just("none"),
                "temperature": NUMBERS,
                "stopSequences": st.lists(TEXTS, max_size=2),
                "metadata": OBJECTS,
                "tools": st.lists(st.fixed_dictionaries({"name": TEXTS, "inputSchema": SCHEMAS}), max_size=1),
                "toolChoice": st.just({"mode": "auto"}),
                "_meta": META,
            },
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant"), "model": TEXTS, "content": BLOCKS | st.lists(BLOCKS, max_size=2)},
            optional={"stopReason": TEXTS, "_meta": META},
        ),
    ),
    st.tuples(
        st.just("elicitation/create"),
        st.fixed_dictionaries(
            {"message": TEXTS, "requestedSchema": SCHEMAS}, optional={"mode": st.just("form"), "_meta": META}
        ),
        st.fixed_dictionaries(
            {"action": st.sampled_from(["accept", "decline", "cancel"])}, optional={"content": OBJECTS, "_meta": META}
        ),
    ),
    st.tuples(
        st.just("roots/list"),
        st.just({}),
        st.fixed_dictionaries(
            {"roots": st.lists(st.fixed_dictionaries({"uri": TEXTS}, optional={"name": TEXTS, "_meta": META}))},
            optional={"_meta": META},
        ),
    ),
)
ITEMS = Catalogue(
    {
        "tools": [{"name": "ask", "inputSchema": {"type": "object"}}],
        "prompts": [],
        "resources": [],
        "resourceTemplates": [],
    },
    Style(),
    page_size=9,
)


class Answering(Client):
    """A handshake client that answers every question with the same bytes, and keeps the question as it came."""

    answer = b"{}"
    question = b""

    def _asked(self, message: bytes) -> None:
        envelope = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
        if "method" in envelope and "id" in envelope:
            self.question = bytes(envelope.get("params", b"{}"))
            body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (bytes(envelope["id"]), self.answer)
            self._tasks.add(asyncio.create_task(self.post(body)))


@pytest.fixture
async def handshake(golden: Golden) -> Answering:
    await golden.offer(ITEMS)
    client = Answering(golden.proxy.http, golden.proxy.url)
    await client.initialize(capabilities=CAPABILITIES)
    return client


async def asked_in_handshake(client: Answering, pair: Pair, result: bytes) -> tuple[Any, Any]:
    client.answer = result
    answer = await client.call(f"{pair.prefix}_ask")
    return loads(client.question), loads(answer.raw())["heard"]


async def asked_stateless(client: StatelessClient, pair: Pair, result: bytes) -> tuple[Any, Any]:
    wanted = loads((await client.call(f"{pair.prefix}_ask")).raw())
    assert wanted["resultType"] == "input_required"
    ((key, question),) = wanted["inputRequests"].items()
    responses = {"inputResponses": {key: loads(result)}, "requestState": wanted["requestState"]}
    answer = await client.call(f"{pair.prefix}_ask", **responses)
    return question.get("params", {}), loads(answer.raw())["heard"]


@EXAMPLES
@given(question=QUESTIONS, extra=UNKNOWN, style=STYLES)
async def test_questions_and_answers_arrive_as_they_were_sent(
    golden: Golden, handshake: Answering, question: tuple[str, Any, Any], extra: Any, style: Style
) -> None:
    method, params, result = question
    params, result = {**extra, **params}, {**result, **extra}
    stateless = StatelessClient(golden.proxy.http, golden.proxy.url, capabilities=CAPABILITIES)
    for pair in PAIRS:
        golden.servers[pair.backend].question = (method, dumps(params, style))
        if pair.client == "handshake":
            seen, heard = await asked_in_handshake(handshake, pair, dumps(result, style))
        else:
            seen, heard = await asked_stateless(stateless, pair, dumps(result, style))
        assert seen == loads(dumps(params))
        assert heard == loads(dumps(result))
