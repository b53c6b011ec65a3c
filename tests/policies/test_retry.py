"""Which requests are repeated, after what pause, and within what budget."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcp_connections.mounts.spec import Retry
from mcp_connections.proxy.catalogue.discovery import Item
from mcp_connections.proxy.channels.channel import (
    ChannelError,
    CommandNotFound,
    Exited,
    HandshakeRefused,
    ProtocolViolation,
    SessionLost,
    TimedOut,
    Unauthorized,
    Unreachable,
    begun,
    unsent,
)
from mcp_connections.proxy.policies.retry import RetryBudget, is_harmless_twice, is_worth_repeating, pause
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import Envelope


def never() -> bool:
    pytest.fail("asked though it does not matter")


@pytest.mark.parametrize("kind", [Unreachable, TimedOut, Exited])
def test_what_did_not_run_is_repeated_without_asking_what_it_does(kind: type[ChannelError]) -> None:
    assert is_worth_repeating(kind("x", executed=False), never)


@pytest.mark.parametrize("harmless", [True, False])
@pytest.mark.parametrize("kind", [Unreachable, TimedOut, Exited])
def test_what_may_have_run_is_repeated_only_if_that_is_harmless(kind: type[ChannelError], harmless: bool) -> None:
    assert is_worth_repeating(kind("x"), lambda: harmless) is harmless


@pytest.mark.parametrize("kind", [Unauthorized, ProtocolViolation, HandshakeRefused, CommandNotFound])
@pytest.mark.parametrize("executed", [True, False])
def test_what_will_fail_again_is_not_repeated(kind: type[ChannelError], executed: bool) -> None:
    assert not is_worth_repeating(kind("x", executed=executed), lambda: True)


def test_a_fault_keeps_its_kind_and_text_and_the_original_its_meaning() -> None:
    for fault in (Exited("code 3"), SessionLost("gone"), TimedOut("late", executed=False)):
        before = fault.executed
        assert (type(unsent(fault)), str(unsent(fault)), unsent(fault).executed) == (type(fault), str(fault), False)
        assert begun(fault).executed
        assert fault.executed is before


@pytest.mark.parametrize(("number", "longest"), [(1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (9, 1.0), (5000, 1.0)])
def test_pauses_double_up_to_a_maximum_and_are_spread_over_the_upper_half(number: int, longest: float) -> None:
    retry = Retry(max_attempts=10, backoff=0.2, max_backoff=1.0)
    assert pause(retry, number, lambda: 0.0) == pytest.approx(longest)
    assert pause(retry, number, lambda: 1.0) == pytest.approx(longest / 2)
    spread = {pause(retry, number) for _ in range(20)}
    assert len(spread) > 1
    assert all(longest / 2 <= each <= longest for each in spread)


def test_a_storm_of_failures_is_repeated_for_a_fifth_of_the_requests_only() -> None:
    budget = RetryBudget(0.0)
    retried = 0
    for _ in range(1000):
        budget.deposit()
        retried += budget.withdraw(0.0)
    assert 200 <= retried <= 211


def test_a_budget_recovers_with_time_up_to_its_reserve() -> None:
    budget = RetryBudget(0.0)
    while budget.withdraw(0.0):
        pass
    assert not budget.withdraw(0.5)
    assert budget.withdraw(1.5)
    assert not budget.withdraw(1.5)
    spent = 0
    while budget.withdraw(1000.0):
        spent += 1
    assert spent == 10


def request(method: str, **params: Any) -> Envelope:
    return {"method": Raw(jsonrpc.encode(method)), "params": Raw(jsonrpc.encode(params))}


def tools(**marks_of: str | None) -> tuple[Item, ...]:
    """Tools with the raw JSON of their annotations."""
    return tuple(
        Item(name, {"annotations": Raw(marks.encode())} if marks is not None else {})
        for name, marks in marks_of.items()
    )


@pytest.mark.parametrize(
    ("marks", "harmless"),
    [
        ('{"idempotentHint": true}', True),
        ('{"readOnlyHint": true}', True),
        ('{"readOnlyHint": true, "idempotentHint": false}', True),
        ('{"readOnlyHint": false, "idempotentHint": true, "destructiveHint": true}', True),
        ('{"idempotentHint": false, "readOnlyHint": false}', False),
        ('{"idempotentHint": "true"}', False),
        ('{"idempotentHint": 1}', False),
        ('{"title": "readOnlyHint"}', False),
        ("{}", False),
        ("null", False),
        ("[]", False),
        ('"readOnlyHint"', False),
        (None, False),
    ],
)
def test_a_tool_call_may_run_twice_only_if_its_backend_says_so(marks: str | None, harmless: bool) -> None:
    known = tools(other='{"readOnlyHint": true}', it=marks)
    assert is_harmless_twice(request("tools/call", name="it"), known) is harmless


@pytest.mark.parametrize(
    "call",
    [
        request("tools/call", name="unknown"),
        request("tools/call"),
        request("tools/call", name=7),
        {"method": Raw(b'"tools/call"')},
        {"method": Raw(b'"tools/call"'), "params": Raw(b"[1]")},
        request("made/up", name="it"),
    ],
)
def test_what_cannot_be_told_may_not(call: Envelope) -> None:
    assert not is_harmless_twice(call, tools(it='{"readOnlyHint": true}'))


def test_without_a_catalogue_no_tool_may() -> None:
    assert not is_harmless_twice(request("tools/call", name="it"), ())


@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe", "prompts/get", "completion/complete"])
def test_reads_may(method: str) -> None:
    assert is_harmless_twice(request(method, uri="a://b"), ())
