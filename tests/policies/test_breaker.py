"""The circuit breaker, on a clock that the test turns."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcp_connections.proxy.policies.breaker import CircuitBreaker

OPEN_FOR = 30.0


def breaker(threshold: int = 3) -> CircuitBreaker:
    return CircuitBreaker(threshold=threshold, open_for=OPEN_FOR)


def admitted(subject: CircuitBreaker, now: float) -> int:
    permit = subject.admit(now)
    assert permit is not None
    return permit


def opened(now: float = 0.0) -> CircuitBreaker:
    subject = breaker(1)
    subject.failed(admitted(subject, now), now)
    return subject


def test_failures_in_a_row_open_it_and_others_do_not() -> None:
    subject = breaker()
    for failures in (2, 2, 3):
        for _ in range(failures):
            assert subject.state(0.0) == "Closed"
            subject.failed(admitted(subject, 0.0), 0.0)
        if failures < 3:
            subject.succeeded(admitted(subject, 0.0))
    assert subject.state(0.0) == "Open"
    assert subject.admit(0.0) is None


def test_a_request_that_tells_nothing_neither_counts_nor_clears() -> None:
    subject = breaker(2)
    subject.failed(admitted(subject, 0.0), 0.0)
    subject.undecided(admitted(subject, 0.0))
    assert subject.state(0.0) == "Closed"
    subject.failed(admitted(subject, 0.0), 0.0)
    assert subject.state(0.0) == "Open"


def test_after_a_while_one_is_let_through_and_closes_it() -> None:
    subject = opened()
    assert subject.admit(OPEN_FOR - 0.1) is None
    assert subject.wait(OPEN_FOR - 10) == 10
    assert subject.state(OPEN_FOR) == "HalfOpen"
    trial = admitted(subject, OPEN_FOR)
    assert subject.admit(OPEN_FOR) is None, "one at a time"
    assert subject.state(OPEN_FOR) == "HalfOpen"
    subject.succeeded(trial)
    assert subject.state(OPEN_FOR) == "Closed"
    assert subject.wait(OPEN_FOR) == 0


def test_a_failed_trial_opens_it_for_as_long_again() -> None:
    subject = opened()
    subject.failed(admitted(subject, 40.0), 41.0)
    assert subject.state(41.0) == "Open"
    assert subject.admit(41.0 + OPEN_FOR - 0.1) is None
    admitted(subject, 41.0 + OPEN_FOR)


def test_a_trial_that_was_cancelled_lets_the_next_one_try() -> None:
    subject = opened()
    subject.undecided(admitted(subject, OPEN_FOR))
    assert subject.state(OPEN_FOR) == "HalfOpen"
    subject.succeeded(admitted(subject, OPEN_FOR))
    assert subject.state(OPEN_FOR) == "Closed"


def test_a_trial_that_hangs_is_followed_by_another() -> None:
    subject = opened()
    hanging = admitted(subject, OPEN_FOR)
    assert subject.admit(2 * OPEN_FOR - 0.1) is None
    subject.succeeded(admitted(subject, 2 * OPEN_FOR))
    assert subject.state(2 * OPEN_FOR) == "Closed"
    subject.succeeded(hanging)
    assert subject.state(2 * OPEN_FOR) == "Closed"


def test_what_was_admitted_before_it_opened_does_not_count() -> None:
    subject = breaker(1)
    slow, other, first = (admitted(subject, 0.0) for _ in range(3))
    subject.failed(first, 0.0)
    subject.succeeded(slow)
    assert subject.state(1.0) == "Open"
    subject.failed(other, 20.0)
    assert subject.state(OPEN_FOR) == "HalfOpen", "the time began when it opened"
    subject.succeeded(admitted(subject, OPEN_FOR))
    subject.failed(other, OPEN_FOR)
    assert subject.state(OPEN_FOR) == "Closed"


def test_a_permit_tells_whether_the_circuit_stayed_closed() -> None:
    subject = breaker(1)
    permit = admitted(subject, 0.0)
    assert subject.is_closed_for(permit)
    subject.failed(permit, 0.0)
    assert not subject.is_closed_for(permit)
    trial = admitted(subject, OPEN_FOR)
    assert not subject.is_closed_for(trial)
    subject.succeeded(trial)
    assert subject.is_closed_for(trial)
    assert not subject.is_closed_for(permit)


class Life(RuleBasedStateMachine):
    """Requests come, end and are cancelled in any order while time goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.subject = breaker(2)
        self.under_way: list[int] = []

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def request(self) -> None:
        state = self.subject.state(self.now)
        permit = self.subject.admit(self.now)
        assert (permit is not None) or state != "Closed"
        assert (permit is None) or state != "Open"
        if permit is not None:
            self.under_way.append(permit)

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 100), outcome=st.sampled_from(["succeeded", "failed", "undecided"]))
    def end(self, which: int, outcome: str) -> None:
        permit = self.under_way.pop(which % len(self.under_way))
        if outcome == "failed":
            self.subject.failed(permit, self.now)
        elif outcome == "succeeded":
            self.subject.succeeded(permit)
        else:
            self.subject.undecided(permit)

    @invariant()
    def it_never_stays_shut(self) -> None:
        assert 0 <= self.subject.wait(self.now) <= OPEN_FOR + 1e-6


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, deadline=None)
