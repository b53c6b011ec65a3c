"""All policies of a mount together, in virtual time: their order, their errors, what they report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_connections.mounts.spec import CircuitBreaker, RateLimit, RequestPolicy, Retry, Timeouts
from mcp_connections.proxy.channels.channel import (
    ChannelError,
    Exited,
    ProtocolViolation,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from mcp_connections.proxy.policies.policy import RequestPolicies
from mcp_connections.proxy.policies.refusals import Refusals
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, RpcError
from tests.operator.virtual_time import virtual_time

REFUSED = Unreachable("cannot connect", executed=False)


class Backend:
    """Answers attempts as it is told to, and remembers when they came."""

    def __init__(self, *outcomes: object, seconds: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.attempts: list[float] = []
        self.at_once = 0
        self.most_at_once = 0

    async def attempt(self) -> object:
        self.attempts.append(asyncio.get_running_loop().time())
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        outcome = self.outcomes.pop(0) if self.outcomes else "ok"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class Chain:
    """The policies of the connection team/one in front of a Backend."""

    def __init__(self, backend: Backend, timeouts: Timeouts | None = None, **policy: Any) -> None:
        self.backend = backend
        self.suspected = 0
        self.policies = RequestPolicies(
            RequestPolicy(**policy), timeouts or Timeouts(), Refusals("team/one"), self._suspect
        )

    def _suspect(self) -> None:
        self.suspected += 1

    async def request(self, *, harmless: bool = False) -> object:
        return await self.policies.run(self.backend.attempt, lambda: harmless)

    async def refused(self) -> tuple[str, dict[str, Any]]:
        """Text and data of the error of a request that must not get through."""
        before = len(self.backend.attempts)
        with pytest.raises(RpcError) as caught:
            await self.request()
        assert caught.value.code == INTERNAL_ERROR
        assert len(self.backend.attempts) == before
        data = caught.value.data
        assert isinstance(data, dict)
        return str(caught.value), data

    async def fails(self, kind: type[ChannelError] = Unreachable, *, harmless: bool = False) -> str:
        with pytest.raises(kind) as caught:
            await self.request(harmless=harmless)
        return str(caught.value)


@virtual_time
async def test_concurrency_is_limited_and_those_that_wait_too_long_are_told_so() -> None:
    chain = Chain(Backend(seconds=3), Timeouts(connect=5), max_concurrency=2)
    requests = [asyncio.create_task(chain.request()) for _ in range(6)]
    await asyncio.sleep(1)
    assert chain.policies.report().waiting == 4
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert outcomes[:4] == ["ok"] * 4
    assert chain.backend.most_at_once == 2
    for outcome in outcomes[4:]:
        assert isinstance(outcome, RpcError)
        assert str(outcome) == (
            "connection team/one refused the request (ConcurrencyLimited): policy.maxConcurrency allows 2 at once, and"
            " none of them ended within 5 s; try again later"
        )
        assert outcome.data == {"connection": "team/one", "reason": "ConcurrencyLimited"}
    report = chain.policies.report()
    assert (report.waiting, report.refused.concurrency) == (0, 2)


@virtual_time
async def test_a_turn_ends_with_its_request_however_it_ends() -> None:
    chain = Chain(Backend(REFUSED, RpcError(1, "no"), seconds=1), Timeouts(connect=5), max_concurrency=1)
    await chain.fails()
    with pytest.raises(RpcError):
        await chain.request()
    cancelled = asyncio.create_task(chain.request())
    await asyncio.sleep(0.5)
    cancelled.cancel()
    assert await chain.request() == "ok"


@virtual_time
async def test_the_rate_limit_says_when_to_try_again() -> None:
    chain = Chain(Backend(), rate_limit=RateLimit(requests=4, per=60, burst=2))
    assert [await chain.request(), await chain.request()] == ["ok", "ok"]
    text, data = await chain.refused()
    assert text == (
        "connection team/one refused the request (RateLimited): policy.rateLimit allows 4 requests per 60 s, 2 of them"
        " at once; try again in 15 s"
    )
    assert data == {"connection": "team/one", "reason": "RateLimited", "retryAfter": 15}
    await asyncio.sleep(data["retryAfter"])
    assert await chain.request() == "ok"
    assert chain.policies.report().refused.rate == 1


@virtual_time
async def test_the_circuit_opens_says_why_and_closes_after_a_good_trial() -> None:
    chain = Chain(
        Backend(Unreachable("reset by peer"), TimedOut("no answer"), Exited("exit code 3"), seconds=1),
        circuit_breaker=CircuitBreaker(consecutive_failures=3, open_for=30),
    )
    assert chain.policies.report().circuit == "Closed"
    for kind in (Unreachable, TimedOut, Exited):
        await chain.fails(kind)
    assert chain.policies.report().circuit == "Open"
    await asyncio.sleep(10)
    text, data = await chain.refused()
    assert text == (
        "connection team/one refused the request (CircuitOpen): policy.circuitBreaker is open after 3 failures in a row"
        " or a failed trial, the last one: exit code 3; try again in 20 s"
    )
    assert data == {"connection": "team/one", "reason": "CircuitOpen", "retryAfter": 20}
    await asyncio.sleep(20)
    assert chain.policies.report().circuit == "HalfOpen"
    trial = asyncio.create_task(chain.request())
    await asyncio.sleep(0.5)
    await chain.refused()
    assert await trial == "ok"
    assert chain.policies.report().circuit == "Closed"
    assert chain.policies.report().refused.circuit == 2


@virtual_time
async def test_answers_of_the_backend_and_cancelled_requests_do_not_open_the_circuit() -> None:
    outcomes = (Unauthorized("403"), ProtocolViolation("no JSON"), RpcError(1, "no"), {"isError": True})
    chain = Chain(Backend(*outcomes, seconds=1), circuit_breaker=CircuitBreaker(consecutive_failures=1, open_for=30))
    await chain.fails(Unauthorized)
    await chain.fails(ProtocolViolation)
    with pytest.raises(RpcError):
        await chain.request()
    assert await chain.request() == {"isError": True}
    cancelled = asyncio.create_task(chain.request())
    await asyncio.sleep(0.5)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    assert chain.policies.report().circuit == "Closed"


@virtual_time
async def test_what_did_not_run_is_sent_again_after_growing_pauses() -> None:
    chain = Chain(Backend(REFUSED, REFUSED), retry=Retry(max_attempts=3, backoff=1, max_backoff=10))
    assert await chain.request() == "ok"
    first, second, third = chain.backend.attempts
    assert 0.5 <= second - first <= 1.01
    assert 1 <= third - second <= 2.01
    assert chain.policies.report().retries == 2
    assert chain.suspected == 2


@virtual_time
async def test_the_last_failure_is_the_answer_and_says_which_attempt_it_was() -> None:
    chain = Chain(Backend(REFUSED, REFUSED, REFUSED), retry=Retry(max_attempts=3, backoff=1))
    assert await chain.fails() == "cannot connect (attempt 3, policy.retry)"
    assert str(REFUSED) == "cannot connect"
    assert len(chain.backend.attempts) == 3


@virtual_time
async def test_what_may_have_run_is_sent_again_only_if_that_is_harmless() -> None:
    retry = Retry(max_attempts=3, backoff=1)
    chain = Chain(Backend(Unreachable("reset"), "second"), retry=retry)
    assert await chain.fails() == "reset"
    assert len(chain.backend.attempts) == 1
    chain = Chain(Backend(Unreachable("reset"), "second"), retry=retry)
    assert await chain.request(harmless=True) == "second"


@virtual_time
async def test_errors_of_the_backend_are_not_repeated() -> None:
    chain = Chain(Backend(RpcError(1, "no")), retry=Retry(max_attempts=3, backoff=1))
    with pytest.raises(RpcError):
        await chain.request(harmless=True)
    assert len(chain.backend.attempts) == 1


@virtual_time
async def test_retries_end_with_the_time_for_the_request_as_a_whole() -> None:
    chain = Chain(
        Backend(*[REFUSED] * 20, seconds=4), Timeouts(max=10), retry=Retry(max_attempts=10, backoff=1, max_backoff=1)
    )
    begun = asyncio.get_running_loop().time()
    text = await chain.fails(ChannelError)
    assert asyncio.get_running_loop().time() - begun <= 10.01
    assert 2 <= len(chain.backend.attempts) <= 3
    assert "attempt" in text


@virtual_time
async def test_a_further_attempt_that_hangs_ends_with_the_maximum() -> None:
    backend = Backend(REFUSED)
    chain = Chain(backend, Timeouts(max=10), retry=Retry(max_attempts=3, backoff=1))

    async def attempt() -> object:
        if backend.attempts:
            await asyncio.sleep(3600)
        return await backend.attempt()

    begun = asyncio.get_running_loop().time()
    with pytest.raises(TimedOut, match=r"no answer within 10 s in all; raise policy\.timeouts\.max to allow more"):
        await chain.policies.run(attempt, lambda: True)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(10, abs=0.01)


@virtual_time
async def test_an_outage_costs_no_more_retries_than_the_budget_has() -> None:
    chain = Chain(Backend(*[REFUSED] * 1000), retry=Retry(max_attempts=10, backoff=0.001, max_backoff=0.001))
    for _ in range(100):
        await chain.fails()
    assert 100 < len(chain.backend.attempts) <= 100 + 10 + 20 + 2


@virtual_time
async def test_an_open_circuit_ends_retries_and_each_attempt_counts() -> None:
    chain = Chain(
        Backend(*[REFUSED] * 10),
        retry=Retry(max_attempts=10, backoff=1),
        circuit_breaker=CircuitBreaker(consecutive_failures=3, open_for=30),
    )
    await chain.fails()
    assert len(chain.backend.attempts) == 3
    assert chain.policies.report().circuit == "Open"
    await asyncio.sleep(30)
    await chain.fails()
    assert len(chain.backend.attempts) == 4, "a trial is one attempt"


@virtual_time
async def test_they_apply_in_order() -> None:
    """Concurrency, rate, circuit: what an earlier one refuses does not reach a later one."""
    chain = Chain(
        Backend(REFUSED, seconds=1),
        Timeouts(connect=0.5),
        max_concurrency=1,
        rate_limit=RateLimit(requests=2, per=3600, burst=2),
        circuit_breaker=CircuitBreaker(consecutive_failures=1, open_for=1000),
    )
    first = asyncio.create_task(chain.request())
    await asyncio.sleep(0)
    assert (await chain.refused())[1]["reason"] == "ConcurrencyLimited"
    await asyncio.wait({first})
    assert (await chain.refused())[1]["reason"] == "CircuitOpen", "the rate limit has one left"
    assert (await chain.refused())[1]["reason"] == "RateLimited"
    assert first.exception() is REFUSED


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"max_concurrency": 1}, (None, 0)),
        ({"circuit_breaker": CircuitBreaker()}, ("Closed", 0)),
        ({"retry": Retry(max_attempts=3)}, (None, 0)),
    ],
)
def test_only_what_is_set_is_reported(policy: dict[str, Any], expected: tuple[str | None, int]) -> None:
    async def report() -> None:
        found = Chain(Backend(), **policy).policies.report()
        assert (found.circuit, found.waiting) == expected
        assert found.refused.model_dump() == {"concurrency": 0, "rate": 0, "circuit": 0, "sessions": 0}

    run_virtually(report)


def run_virtually(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    virtual_time(main)()
