"""The hash stays when nothing changed that a client could see, and changes with everything that did."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.proxy.catalogue.catalogue_hash import Part, canonical, digest, hash_of

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
PARTS = st.dictionaries(
    st.builds(Part, st.sampled_from(["tool", "prompt", "to"]), st.text(max_size=3)), st.binary(min_size=32, max_size=32)
)


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(value=JSON, order=st.randoms(use_true_random=False), ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
@settings(max_examples=150, deadline=None)
def test_order_of_members_spacing_and_escapes_do_not_count(
    value: Any, order: random.Random, ascii_only: bool, indent: int | None
) -> None:
    plain = json.dumps(value).encode("utf-8", "surrogatepass")
    other = json.dumps(shuffled(value, order), ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    assert canonical(plain) == canonical(other)


@given(one=JSON, other=JSON)
@settings(max_examples=300, deadline=None)
def test_equal_only_if_the_values_are(one: Any, other: Any) -> None:
    same = canonical(json.dumps(one).encode()) == canonical(json.dumps(other).encode())
    assert same == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":1.5}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":true}', '{"a":1}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":null}', "{}"),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":%s}' % ("1" * 40), '{"a":%s2}' % ("1" * 39)),
        ('{"a":%s}' % ("1" * 5000), '{"a":%s2}' % ("1" * 4999)),
        ('{"a":0.1}', '{"a":0.10000000000000000001}'),
        ('{"a":1e400}', '{"a":1e401}'),
        ('{"a":"x","a":"y"}', '{"a":"z","a":"y"}'),
        ('{"a":"x","a":"y"}', '{"a":"y"}'),
        ('{"a":"\\ud800"}', '{"a":"\\ud801"}'),
        ("[" * 100_000 + "1" + "]" * 100_000, "[" * 100_000 + "2" + "]" * 100_000),
    ],
)
def test_every_difference_counts(one: str, other: str) -> None:
    assert digest(one.encode()) != digest(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [('{"a":1.50}', '{"a":1.5}'), ('{"a":1E2}', '{"a":100.0}'), ('{"a":"\\u00e9\\/"}', '{"a":"é/"}')],
)
def test_spellings_of_one_value_do_not(one: str, other: str) -> None:
    assert digest(one.encode()) == digest(other.encode())


def test_text_that_is_not_utf8_counts_as_it_is() -> None:
    assert canonical(b'{"a": "\xff"}') == b'{"a": "\xff"}'


@given(parts=PARTS, order=st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_items_does_not_count(parts: dict[Part, bytes], order: random.Random) -> None:
    assert hash_of(parts) == hash_of(shuffled(parts, order))


@given(one=PARTS, other=PARTS)
@settings(max_examples=300, deadline=None)
def test_hashes_are_equal_only_for_equal_catalogues(one: dict[Part, bytes], other: dict[Part, bytes]) -> None:
    assert (hash_of(one) == hash_of(other)) == (one == other)


def test_names_cannot_imitate_kinds_or_each_other() -> None:
    body = bytes(32)
    catalogues = [
        {Part("tool", "a"): body},
        {Part("toola", ""): body},
        {Part("to", "ola"): body},
        {Part("tool", "a1:b"): body},
        {Part("tool", "a"): body, Part("tool", "b"): body},
        {},
    ]
    assert len({hash_of(each) for each in catalogues}) == len(catalogues)


def test_it_stays_the_same_over_releases() -> None:
    """A change of this value withholds every pinned catalogue at the next upgrade. Have a reason."""
    tool = b'{"name": "search", "inputSchema": {"type": "object", "properties": {"q": {"maximum": 1.50}}}}'
    parts = {Part("tool", "search"): digest(tool), Part("instructions"): digest(b'"Be kind."')}
    assert hash_of(parts) == "aa5a416a4b39252d0cb2ca31b5ca5f44258056b3ea91d5d17960314fa9207f50"
