"""The token bucket, on a clock that the test turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.proxy.policies.token_bucket import TokenBucket


def test_a_burst_passes_and_the_next_is_told_when_to_come() -> None:
    bucket = TokenBucket(requests=2, per=1.0, burst=3)
    assert [bucket.take(100.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.take(100.0) == pytest.approx(0.5)
    assert bucket.take(100.3) == pytest.approx(0.2)
    assert bucket.take(100.5) == 0.0
    assert bucket.take(100.5) == pytest.approx(0.5)


def test_being_refused_costs_nothing() -> None:
    bucket = TokenBucket(requests=1, per=1.0, burst=1)
    assert bucket.take(0.0) == 0.0
    for _ in range(1000):
        assert bucket.take(0.9) > 0
    assert bucket.take(1.0) == 0.0


def test_unused_tokens_are_kept_up_to_the_burst_and_no_further() -> None:
    bucket = TokenBucket(requests=10, per=60.0, burst=2)
    assert bucket.take(0.0) == 0.0
    admitted = [bucket.take(86_400.0) for _ in range(4)]
    assert admitted[:2] == [0.0, 0.0]
    assert admitted[2] == admitted[3] == pytest.approx(6.0)


@given(
    requests=st.integers(1, 1000),
    per=st.floats(1, 86_400),
    burst=st.integers(1, 50),
    pauses=st.lists(st.one_of(st.just(0.0), st.floats(0, 100)), min_size=1, max_size=80),
    start=st.floats(0, 1e7),
)
@settings(max_examples=200, deadline=None)
def test_no_span_of_time_holds_more_than_the_limit(
    requests: int, per: float, burst: int, pauses: list[float], start: float
) -> None:
    bucket = TokenBucket(requests=requests, per=per, burst=burst)
    now = start
    admitted: list[float] = []
    for each in pauses:
        now += each
        if bucket.take(now) == 0.0:
            admitted.append(now)
    for first, begin in enumerate(admitted):
        for last in range(first, len(admitted)):
            allowed = burst + (admitted[last] - begin) * requests / per
            assert last - first + 1 <= allowed + 0.01


@given(requests=st.integers(1, 1000), per=st.floats(1, 86_400), burst=st.integers(1, 20), now=st.floats(0, 1e7))
@settings(max_examples=200, deadline=None)
def test_whoever_waits_as_long_as_told_is_admitted(requests: int, per: float, burst: int, now: float) -> None:
    bucket = TokenBucket(requests=requests, per=per, burst=burst)
    for _ in range(burst):
        assert bucket.take(now) == 0.0
    wait = bucket.take(now)
    assert 0 < wait <= per / requests + 1e-6
    assert bucket.take(now + wait) == 0.0
