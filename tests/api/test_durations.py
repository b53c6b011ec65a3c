"""Go's durations, as far as Kubernetes' Gateway API (GEP-2257) takes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_connections.api.durations import Duration, seconds, within

UNITS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", 0.0),
        ("300ms", 0.3),
        ("5s", 5.0),
        ("2m30s", 150.0),
        ("1h", 3600.0),
        ("1h1m1s1ms", 3661.001),
        ("99999h", 359_996_400.0),
        ("1s1s", 2.0),
    ],
)
def test_seconds(text: str, expected: float) -> None:
    assert seconds(text) == expected
    assert Duration(text).seconds == expected


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5d", "1.5s", "-1s", "+1s", "1 s", "1s ", "1s\n", "123456s", "٣s", "1S"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 300ms, 5s, 2m30s or 1h"):
        Duration(text)
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


@given(st.lists(st.tuples(st.integers(0, 99_999), st.sampled_from(list(UNITS))), min_size=1, max_size=4))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert round(Duration(text).seconds * 1000) == sum(number * UNITS[unit] for number, unit in parts)


def test_a_duration_is_its_text() -> None:
    assert Duration("60s") == "60s"
    assert Duration("60s").seconds == Duration("1m").seconds


@pytest.mark.parametrize(("text", "holds"), [("999ms", False), ("1s", True), ("60s", True), ("1m1ms", False)])
def test_bounds_are_included(text: str, holds: bool) -> None:
    assert within("1s", "1m").holds(Duration(text)) is holds
