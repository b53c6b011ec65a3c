"""Which prefixes may stand beside each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.prefixes import PrefixClaim, prefix_conflicts
from mcp_connections.mounts.spec import ConnectionKey


def claims(*prefixes: str) -> list[PrefixClaim]:
    return [PrefixClaim(connection=ConnectionKey(name=f"c{i}"), prefix=p) for i, p in enumerate(prefixes)]


def reasons(separator: str, *prefixes: str) -> dict[str, str]:
    return {key.name: each.reason for key, each in prefix_conflicts(claims(*prefixes), separator).items()}


@pytest.mark.parametrize(
    ("separator", "prefixes", "expected"),
    [
        ("_", ["redis", "redis"], {"c1": "PrefixConflict"}),
        ("_", ["redis", "redis_ft"], {"c1": "AmbiguousPrefix"}),
        ("_", ["redis_ft", "redis"], {"c1": "AmbiguousPrefix"}),
        (".", ["redis", "redis_ft"], {}),
        (".", ["redis", "redis.ft"], {"c1": "AmbiguousPrefix"}),
        ("_", ["redis", "redisft"], {}),
        ("_", ["", "", "redis"], {}),
        ("__", ["a", "a_", "a_b"], {"c1": "AmbiguousPrefix"}),
        # c1 gives way to c0, so it does not stand in the way of c2
        ("_", ["a_b", "a", "a_c"], {"c1": "AmbiguousPrefix"}),
        ("_", ["a", "a", "a"], {"c1": "PrefixConflict", "c2": "PrefixConflict"}),
    ],
)
def test_who_gives_way(separator: str, prefixes: list[str], expected: dict[str, str]) -> None:
    assert reasons(separator, *prefixes) == expected


def test_messages_name_both_connections_both_prefixes_and_the_way_out() -> None:
    rejections = prefix_conflicts(claims("redis", "redis_ft", "redis"), "_")
    ambiguous, equal = rejections.values()

    for part in ("default/c1", "default/c0", "'redis_ft'", "'redis'", "'_'", "spec.prefix", "spec.separator"):
        assert part in ambiguous.message
    for part in ("default/c2", "default/c0", "'redis'", "'_'", "spec.prefix"):
        assert part in equal.message


@given(prefixes=st.lists(st.text("ab_.", max_size=5), max_size=12), separator=st.sampled_from(["_", ".", "__", ":"]))
@settings(max_examples=150, deadline=None)
def test_the_granted_are_unambiguous_and_the_refused_would_not_be(prefixes: list[str], separator: str) -> None:
    refused = {key.name for key in prefix_conflicts(claims(*prefixes), separator)}
    granted: list[str] = []

    for index, prefix in enumerate(prefixes):
        token = prefix + separator
        clash = bool(prefix) and any(token.startswith(other) or other.startswith(token) for other in granted)
        assert clash == (f"c{index}" in refused)
        if prefix and not clash:
            granted.append(token)

    assert not any(one.startswith(other) for one, other in itertools.permutations(granted, 2))
