"""Retired mounts, merged over replicas and with what status said before."""

from __future__ import annotations

from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.api.connection_status import RetiredMountStatus
from mcp_connections.mounts.report import RetiredMount
from mcp_connections.mounts.retirement import retired_mounts
from tests.mounts.resources import at, key

State = Literal["Draining", "Closed"]


def seen(fingerprint: str, seconds: float, state: State = "Draining", in_flight: int = 0) -> RetiredMount:
    return RetiredMount(
        connection=key("a"),
        fingerprint=fingerprint,
        reason="Changed",
        retired_at=at(seconds),
        state=state,
        in_flight=in_flight,
    )


def brief(entries: tuple[RetiredMountStatus, ...]) -> list[tuple[str, str, int]]:
    return [(each.fingerprint, each.state, each.in_flight) for each in entries]


def test_replicas_are_joined_and_the_slowest_decides() -> None:
    observed = [seen("f", 1.2, "Closed"), seen("f", 1.4, "Draining", 2), seen("f", 1.3, "Draining", 3)]

    (entry,) = retired_mounts(observed, (), complete=True)

    assert (entry.state, entry.in_flight, entry.retired_at) == ("Draining", 5, at(1))


def test_what_a_process_that_is_gone_left_is_closed_only_once_all_replicas_answer() -> None:
    before = retired_mounts([seen("f", 1, "Draining", 2)], (), complete=True)

    assert brief(retired_mounts([], before, complete=False)) == [("f", "Draining", 2)]
    assert brief(retired_mounts([], before, complete=True)) == [("f", "Closed", 0)]


def test_closed_in_one_replica_is_not_closed_while_another_is_silent() -> None:
    first = retired_mounts([seen("f", 1, "Closed")], (), complete=False)
    second = retired_mounts([seen("f", 1, "Closed")], first, complete=True)
    third = retired_mounts([seen("f", 1, "Closed")], second, complete=False)

    assert [entries[0].state for entries in (first, second, third)] == ["Draining", "Closed", "Closed"]


def test_the_same_fingerprint_retired_again_is_one_entry_and_drains_again() -> None:
    before = retired_mounts([seen("f", 1, "Closed")], (), complete=True)

    again = retired_mounts([seen("f", 1, "Closed"), seen("f", 9, "Draining", 1)], before, complete=True)
    unsure = retired_mounts([seen("f", 9, "Closed")], before, complete=False)

    assert brief(again) == [("f", "Draining", 1)]
    assert again[0].retired_at == at(9)
    assert brief(unsure) == [("f", "Draining", 0)]


def test_the_last_twenty_are_kept_newest_last() -> None:
    before = retired_mounts([seen(f"f{i}", i, "Closed") for i in range(15)], (), complete=True)

    entries = retired_mounts([seen(f"f{i}", i, "Closed") for i in range(15, 30)], before, complete=True)

    assert [each.fingerprint for each in entries] == [f"f{i}" for i in range(10, 30)]


OBSERVED = st.lists(
    st.builds(
        seen,
        st.sampled_from(["f1", "f2", "f3"]),
        st.floats(0, 5),
        st.sampled_from(["Draining", "Closed"]),
        st.integers(0, 2),
    ),
    max_size=6,
)


@given(rounds=st.lists(st.tuples(OBSERVED, st.booleans()), max_size=4))
@settings(max_examples=150, deadline=None)
def test_nothing_says_closed_before_it_is_and_nothing_moves_by_itself(
    rounds: list[tuple[list[RetiredMount], bool]],
) -> None:
    entries: tuple[RetiredMountStatus, ...] = ()
    for observed, complete in rounds:
        before = {each.fingerprint: each for each in entries}
        entries = retired_mounts(observed, entries, complete=complete)

        draining = {each.fingerprint for each in observed if each.state == "Draining"}
        for entry in entries:
            if entry.state == "Closed":
                assert entry.fingerprint not in draining
                assert entry.in_flight == 0
                known = before.get(entry.fingerprint)
                assert complete or (known is not None and known.state == "Closed")
        assert retired_mounts(observed, entries, complete=complete) == entries
        assert retired_mounts(observed[::-1], entries, complete=complete) == entries
