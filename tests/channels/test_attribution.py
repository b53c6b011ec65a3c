"""Whose answer an unreadable message is: right or unknown, never wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_connections.proxy.channels.attribution import answered_id


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":7,"result":{"a":[1,2]}}',
        '{"result":{"content":[{"id":3}]},"jsonrpc":"2.0","id":7}',
        '  { "id" : 7 , "jsonrpc" : "2.0" , "error" : {"code":1,"message":"x"} }\r',
        '{"jsonrpc":"2.0","id":"7","result":{}}',
        '{"jsonrpc":"2.0","result":NaN,"id":7}',
        '{"jsonrpc":"2.0","id":7,"result":"\\ud800"}',
    ],
)
def test_finds_the_id_on_either_side_of_the_result(text: str) -> None:
    raw = text.encode()
    assert answered_id(raw, raw) == 7


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}',
        '{"params":{},"method":"x","jsonrpc":"2.0","id":7}',
        '{"jsonrpc":"2.0","result":{},"id":7,"method":"x"}',
        '{"jsonrpc":"2.0","result":{"id":7}}',
        '{"jsonrpc":"2.0","id":null,"error":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '[{"jsonrpc":"2.0","id":7,"result":{}}]',
        '{"id":7}',
        "{",
        "}",
        "",
        "banner: id 7",
    ],
)
def test_claims_nothing_for_what_is_no_answer(text: str) -> None:
    raw = text.encode()
    assert answered_id(raw, raw) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "method", "result", "x"]), inner)
    ),
    max_leaves=12,
)
RESPONSES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.integers(0, 99), "result": st.dictionaries(st.text(), JSON)}
)
REQUESTS = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 99),
        "method": st.text(),
        "params": st.dictionaries(st.text(), JSON),
    }
)


@given(
    message=RESPONSES | REQUESTS,
    order=st.randoms(use_true_random=False),
    edge=st.integers(1, 400),
    spaced=st.booleans(),
)
def test_is_never_wrong(message: dict[str, Any], order: Any, edge: int, spaced: bool) -> None:
    members = list(message.items())
    order.shuffle(members)
    raw = json.dumps(dict(members), separators=None if spaced else (",", ":")).encode()

    found = answered_id(raw[:edge], raw[-edge:])

    expected = message["id"] if "result" in message else None
    assert found in (None, expected)
    if edge > len(raw):
        assert found == expected
