"""Every result, error and notification, and every request, for every pairing of eras."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.golden.catalogues import META, OBJECTS, STYLES, Catalogue
from tests.golden.eras import as_client_needs, own_meta
from tests.golden.json_text import Number, Style, dumps, loads
from tests.golden.mapping import public_name, public_result, public_uri
from tests.golden.relayed import PAIRS, Golden, Pair
from tests.golden.results import Answered, outcomes

EXAMPLES = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
OWN = {"tools/call": ("name", "do"), "prompts/get": ("name", "say"), "resources/read": ("uri", "doc://x/é?q#f")}
METHODS = tuple(OWN)
ITEMS = Catalogue(
    {
        "tools": [{"name": "do", "inputSchema": {"type": "object"}}],
        "prompts": [{"name": "say"}],
        "resources": [{"uri": "doc://x/é?q#f", "name": "x"}],
        "resourceTemplates": [],
    },
    Style(),
    page_size=9,
)


@pytest.fixture
async def offered(golden: Golden) -> Golden:
    """Both servers have one tool, one prompt and one resource."""
    await golden.offer(ITEMS)
    return golden


def public_params(pair: Pair, method: str) -> dict[str, Any]:
    key, own = OWN[method]
    return {key: public_name(pair.prefix, own) if key == "name" else public_uri(pair.prefix, own)}


def heard(messages: list[bytes]) -> list[Any]:
    """Notifications, decoded."""
    return [loads(message) for message in messages[:-1]]


async def compare(golden: Golden, pair: Pair, method: str) -> None:
    key, own = OWN[method]
    token = {"_meta": {"progressToken": "t-1"}}
    direct = await golden.direct(pair.backend, method, {key: own, **token})
    proxied = await golden.proxied(pair.client, method, {**public_params(pair, method), **token})
    assert heard(proxied.messages) == heard(direct.messages)
    member = "error" if "error" in loads(direct.messages[-1]) else "result"
    own_value = loads(direct.raw(member))
    expected = as_client_needs(method, member, own_value, client=pair.client, backend=pair.backend)
    if member == "result":
        expected = public_result(method, pair.prefix, expected)
    assert loads(proxied.raw(member)) == expected
    if expected == own_value and b'"uri"' not in direct.raw(member):
        assert proxied.raw(member) == direct.raw(member), "what needs no change is passed on byte for byte"


ANSWERS = st.sampled_from(METHODS).flatmap(lambda method: st.tuples(st.just(method), outcomes(method)))


@EXAMPLES
@given(answer=ANSWERS, style=STYLES)
async def test_answers_arrive_as_they_were_given(offered: Golden, answer: tuple[str, Answered], style: Style) -> None:
    method, answered = answer
    offered.answer(method, OWN[method][1], answered, style)
    for pair in PAIRS:
        await compare(offered, pair, method)


IDS = st.one_of(st.text(max_size=5), st.integers(min_value=-(2**53), max_value=2**53), st.just(2**63))
TOKENS = st.one_of(st.none(), st.text(max_size=5), st.integers(min_value=0, max_value=2**64))


@EXAMPLES
@given(method=st.sampled_from(METHODS), arguments=OBJECTS, unknown=OBJECTS, meta=st.none() | META, token=TOKENS)
async def test_requests_arrive_as_they_were_sent(
    offered: Golden, method: str, arguments: dict[str, Any], unknown: dict[str, Any], meta: Any, token: Any
) -> None:
    key, own = OWN[method]
    offered.answer(method, own, Answered("result", {}, []))
    if token is not None:
        meta = {**(meta or {}), "progressToken": token}
    members = {f"x-{name}": value for name, value in unknown.items()}
    members |= {"arguments": arguments} if key == "name" else {}
    members |= {"_meta": meta} if meta is not None else {}
    for pair in PAIRS:
        server = offered.servers[pair.backend]
        server.requests.clear()
        await offered.proxied(pair.client, method, {**members, **public_params(pair, method)})
        (seen,) = [loads(dumps_raw(params)) for params in server.requests]
        same = {name: value for name, value in seen.items() if name != "_meta"}
        assert same == loads(dumps({**{name: v for name, v in members.items() if name != "_meta"}, key: own}))
        if pair == Pair("handshake", "handshake"):
            assert ("_meta" in seen) == (meta is not None)
        sent_meta = loads(dumps({name: v for name, v in (meta or {}).items() if name != "progressToken"}))
        assert (own_meta(seen) or {}) == sent_meta
        assert ("progressToken" in seen.get("_meta", {})) == (token is not None)


def dumps_raw(params: dict[str, Any]) -> bytes:
    return b"{%s}" % b",".join(dumps(name) + b":" + bytes(raw) for name, raw in params.items())


@EXAMPLES
@given(request_id=IDS, token=TOKENS.filter(lambda token: token is not None), pair=st.sampled_from(PAIRS))
async def test_ids_and_progress_tokens_come_back_as_they_were(
    offered: Golden, request_id: Any, token: Any, pair: Pair
) -> None:
    progress = ("notifications/progress", {"progress": Number("1")})
    offered.answer("tools/call", "do", Answered("result", {}, [progress]))
    params = {**public_params(pair, "tools/call"), "_meta": {"progressToken": token}}
    answer = await offered.proxied(pair.client, "tools/call", params, request_id=request_id)
    notice, response = map(loads, answer.messages)
    assert notice["params"] == loads(dumps({"progressToken": token, "progress": Number("1")}))
    assert response["id"] == loads(dumps(request_id))
