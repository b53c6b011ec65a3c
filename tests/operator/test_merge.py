"""A pod template is merged over the generated one by name, and neither side is changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mcp_connections.operator.merge import merged

CASES: list[tuple[str, Any, Any, Any]] = [
    ("a member is added", {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    ("a member is replaced", {"a": 1}, {"a": 2}, {"a": 2}),
    ("objects are merged member by member", {"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
    (
        "named items are merged by name",
        [{"name": "proxy", "image": "one"}],
        [{"name": "proxy", "env": []}],
        [{"name": "proxy", "image": "one", "env": []}],
    ),
    (
        "a further named item follows",
        [{"name": "proxy"}],
        [{"name": "sidecar"}],
        [{"name": "proxy"}, {"name": "sidecar"}],
    ),
    ("other lists are replaced", ["a", "b"], ["c"], ["c"]),
    ("items without names are replaced", [{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
    ("an empty list of the base takes the items", [], [{"name": "a"}], [{"name": "a"}]),
    ("null replaces", {"a": {"b": 1}}, {"a": None}, {"a": None}),
    ("an object replaces a value", {"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
]


@pytest.mark.parametrize(("base", "over", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_merged(base: Any, over: Any, expected: Any) -> None:
    before = copy.deepcopy((base, over))

    assert merged(base, over) == expected
    assert (base, over) == before
