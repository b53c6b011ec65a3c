"""What a request passes on its way to a backend: its turn, rate limit, circuit breaker, and retries if it fails.

(Timeouts are the session's part, see ``upstream.session``.) The parts are pure and know no clock and no errors of
JSON-RPC; here they are put in order. A mount without policies has no object of this class, its requests cost nothing.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mcp_connections.mounts.report import PolicyReport
from mcp_connections.mounts.spec import RateLimit, RequestPolicy, Timeouts
from mcp_connections.proxy.channels.channel import ChannelError, TimedOut
from mcp_connections.proxy.policies.breaker import CircuitBreaker
from mcp_connections.proxy.policies.concurrency import NoTurn, Turns
from mcp_connections.proxy.policies.refusals import CIRCUIT, CONCURRENCY, RATE, Refusals
from mcp_connections.proxy.policies.retry import RetryBudget, is_worth_repeating, pause
from mcp_connections.proxy.policies.token_bucket import TokenBucket

BROKEN: Final = frozenset({"Unreachable", "Timeout", "Exited", "CommandNotFound"})
"""Reasons of failures that a circuit breaker counts: the transport failed or nothing came back. An answer that is of no
use is an answer."""

Result = TypeVar("Result")
Attempt = Callable[[], Awaitable[Result]]


class RequestPolicies:
    """The policies of one mount."""

    def __init__(
        self, policy: RequestPolicy, timeouts: Timeouts, refusals: Refusals, suspect: Callable[[], None]
    ) -> None:
        """``suspect`` is told of every attempt that failed on the way."""
        self._policy = policy
        self._timeouts = timeouts
        self._refusals = refusals
        self._suspect = suspect
        self._now = asyncio.get_running_loop().time
        self._turns = Turns(policy.max_concurrency, timeouts.connect) if policy.max_concurrency else None
        self._bucket = bucket(policy.rate_limit) if policy.rate_limit else None
        self._breaker = (
            CircuitBreaker(
                threshold=policy.circuit_breaker.consecutive_failures, open_for=policy.circuit_breaker.open_for
            )
            if policy.circuit_breaker
            else None
        )
        self._budget = RetryBudget(self._now())
        self._retries = 0
        self._last_failure = ""

    def report(self) -> PolicyReport:
        """What they are doing."""
        return PolicyReport(
            circuit=self._breaker.state(self._now()) if self._breaker else None,
            waiting=self._turns.waiting if self._turns else 0,
            refused=self._refusals.report(),
            retries=self._retries,
        )

    async def run(self, attempt: Attempt[Result], is_harmless: Callable[[], bool]) -> Result:
        """The result of ``attempt``, made when and as often as the policies allow. ``is_harmless``: whether it may run
        twice. Raises RpcError where they refuse it, ChannelError where it failed in the end."""
        if self._turns is None:
            return await self._admitted(attempt, is_harmless)
        try:
            await self._turns.take()
        except NoTurn as full:
            limit = self._policy.max_concurrency
            raise self._refusals.refuse(
                CONCURRENCY, f"policy.maxConcurrency allows {limit} at once, and {full}; try again later"
            ) from None
        try:
            return await self._admitted(attempt, is_harmless)
        finally:
            self._turns.give_back()

    async def _admitted(self, attempt: Attempt[Result], is_harmless: Callable[[], bool]) -> Result:
        if self._bucket is not None and self._policy.rate_limit and (wait := self._bucket.take(self._now())):
            raise self._refusals.refuse(RATE, f"policy.rateLimit allows {in_words(self._policy.rate_limit)}", wait)
        permit = self._permit()
        if self._policy.retry is None:
            return await self._once(attempt, permit)
        return await self._repeatedly(attempt, permit, is_harmless)

    def _permit(self) -> int:
        breaker, settings = self._breaker, self._policy.circuit_breaker
        if breaker is None or settings is None:
            return 0
        permit = breaker.admit(self._now())
        if permit is None:
            raise self._refusals.refuse(
                CIRCUIT,
                f"policy.circuitBreaker is open after {settings.consecutive_failures} failures in a row or a failed"
                f" trial, the last one: {self._last_failure}",
                breaker.wait(self._now()),
            )
        return permit

    async def _once(self, attempt: Attempt[Result], permit: int) -> Result:
        """One attempt, whose outcome the circuit breaker is told of."""
        breaker = self._breaker
        try:
            result = await attempt()
        except ChannelError as error:
            self._last_failure = error.unquoted
            if breaker is not None and error.reason in BROKEN:
                breaker.failed(permit, self._now())
            elif breaker is not None:
                breaker.undecided(permit)
            raise
        except BaseException:
            if breaker is not None:
                breaker.undecided(permit)
            raise
        if breaker is not None:
            breaker.succeeded(permit)
        return result

    async def _repeatedly(self, attempt: Attempt[Result], permit: int, is_harmless: Callable[[], bool]) -> Result:
        begun = self._now()
        self._budget.deposit()
        number = 1
        while True:
            try:
                if number == 1:
                    return await self._once(attempt, permit)
                return await self._once(lambda: self._within(attempt, begun), permit)
            except ChannelError as error:
                wait = self._pause(number, permit, begun, error, is_harmless)
                if wait is None:
                    raise (error if number == 1 else _after(number, error)) from None
            self._retries += 1
            self._suspect()
            number += 1
            await asyncio.sleep(wait)

    def _pause(
        self, number: int, permit: int, begun: float, error: ChannelError, is_harmless: Callable[[], bool]
    ) -> float | None:
        """Seconds until the next attempt; None if there is to be none."""
        retry, now = self._policy.retry, self._now()
        if retry is None or number >= retry.max_attempts or not is_worth_repeating(error, is_harmless):
            return None
        if self._breaker is not None and not self._breaker.is_closed_for(permit):
            return None
        wait = pause(retry, number)
        if now + wait - begun >= self._timeouts.max or not self._budget.withdraw(now):
            return None
        return wait

    async def _within(self, attempt: Attempt[Result], begun: float) -> Result:
        """A further attempt, within what is left of ``timeouts.max`` for the request as a whole."""
        try:
            async with asyncio.timeout_at(begun + self._timeouts.max):
                return await attempt()
        except TimeoutError:
            raise TimedOut(
                f"no answer within {self._timeouts.max:g} s in all; raise policy.timeouts.max to allow more"
            ) from None


def bucket(limit: RateLimit) -> TokenBucket:
    """The token bucket for a limit."""
    return TokenBucket(requests=limit.requests, per=limit.per, burst=limit.burst)


def in_words(limit: RateLimit) -> str:
    """The limit for an error text."""
    at_once = "" if limit.burst == limit.requests else f", {limit.burst} of them at once"
    return f"{limit.requests} requests per {limit.per:g} s{at_once}"


def _after(attempts: int, error: ChannelError) -> ChannelError:
    """The failure of the last of several attempts. A copy: others may be shown the same object."""
    last = copy.copy(error)
    last.args = (f"{error} (attempt {attempts}, policy.retry)",)
    return last
