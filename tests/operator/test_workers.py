"""Workers pass when marked, look when it is time, try again what failed, and end with their proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import kopf
import pytest

from mcp_connections.operator.cluster import ClusterError
from mcp_connections.operator.main import liveness
from mcp_connections.operator.reconcile import Outcome
from mcp_connections.operator.trigger import ProxyKey, Trigger
from mcp_connections.operator.workers import RESYNC, RETRY_LONGEST, STUCK_AFTER, Workers
from tests.operator.virtual_time import virtual_time

KEY = ProxyKey("team", "default")


class Recorded:
    """A reconciler that records what it was asked for and answers as told."""

    def __init__(self, answer: Callable[[str], Outcome]) -> None:
        self.calls: list[tuple[str, float]] = []
        self._answer = answer

    async def full_pass(self) -> Outcome:
        return self._call("full")

    async def look(self) -> Outcome:
        return self._call("look")

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.calls]

    def _call(self, kind: str) -> Outcome:
        self.calls.append((kind, asyncio.get_running_loop().time()))
        return self._answer(kind)


@asynccontextmanager
async def running(workers: Workers) -> AsyncIterator[None]:
    task = asyncio.create_task(workers.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def no_keys() -> Iterable[ProxyKey]:
    return ()


@virtual_time
async def test_looks_follow_a_pass_at_the_pace_it_asks_for() -> None:
    reconciler = Recorded(lambda _: Outcome(wait=4))
    trigger = Trigger()
    trigger.mark(KEY)

    async with running(Workers(trigger, no_keys, lambda _: reconciler)):
        await asyncio.sleep(10)

    assert reconciler.kinds() == ["full", "look", "look"]


@virtual_time
async def test_a_mark_interrupts_the_wait_for_the_next_look() -> None:
    reconciler = Recorded(lambda _: Outcome(wait=50))
    trigger = Trigger()
    trigger.mark(KEY)

    async with running(Workers(trigger, no_keys, lambda _: reconciler)):
        await asyncio.sleep(5)
        trigger.mark(KEY)
        await asyncio.sleep(5)

    assert reconciler.kinds() == ["full", "full"]


@virtual_time
async def test_a_failed_pass_is_tried_again_in_full_and_ever_less_often() -> None:
    def refuse(_: str) -> Outcome:
        raise ClusterError("no answer")

    reconciler = Recorded(refuse)
    trigger = Trigger()
    trigger.mark(KEY)

    async with running(Workers(trigger, no_keys, lambda _: reconciler, resync=1e6)):
        await asyncio.sleep(600)

    waits = [later - earlier for (_, earlier), (_, later) in zip(reconciler.calls, reconciler.calls[1:], strict=False)]
    assert set(reconciler.kinds()) == {"full"}
    assert waits == pytest.approx(sorted(waits))
    assert waits[0] < 2
    assert max(waits) == pytest.approx(RETRY_LONGEST, abs=1)


@virtual_time
async def test_an_error_in_a_pass_does_not_end_the_worker() -> None:
    failures = iter([ZeroDivisionError()])

    def fail_once(_: str) -> Outcome:
        for failure in failures:
            raise failure
        return Outcome(wait=1000)

    reconciler = Recorded(fail_once)
    trigger = Trigger()
    trigger.mark(KEY)

    async with running(Workers(trigger, no_keys, lambda _: reconciler, resync=1e6)):
        await asyncio.sleep(60)

    assert reconciler.kinds() == ["full", "full"]


@virtual_time
async def test_resync_marks_what_exists_from_the_start_on() -> None:
    reconciler = Recorded(lambda _: Outcome(wait=1e6))

    async def keys() -> Iterable[ProxyKey]:
        return [KEY]

    async with running(Workers(Trigger(), keys, lambda _: reconciler)):
        await asyncio.sleep(RESYNC * 2.5)

    assert reconciler.kinds() == ["full"] * 3


@virtual_time
async def test_a_failing_resync_is_tried_again() -> None:
    reconciler = Recorded(lambda _: Outcome(wait=1e6))
    failures = iter([ClusterError("down"), ClusterError("down")])

    async def keys() -> Iterable[ProxyKey]:
        for failure in failures:
            raise failure
        return [KEY]

    async with running(Workers(Trigger(), keys, lambda _: reconciler)):
        await asyncio.sleep(20)

    assert reconciler.kinds() == ["full"]


@virtual_time
async def test_the_worker_of_a_proxy_that_is_gone_ends_and_a_later_mark_makes_another() -> None:
    made: list[ProxyKey] = []
    reconciler = Recorded(lambda _: Outcome(wait=0, is_gone=True))

    def make(key: ProxyKey) -> Recorded:
        made.append(key)
        return reconciler

    trigger = Trigger()
    trigger.mark(KEY)
    async with running(Workers(trigger, no_keys, make, resync=1e6)):
        await asyncio.sleep(30)
        assert len(reconciler.calls) == 1
        trigger.mark(KEY)
        await asyncio.sleep(30)

    assert made == [KEY, KEY]
    assert reconciler.kinds() == ["full", "full"]


@virtual_time
async def test_k8s_09_a_pass_that_never_ends_fails_the_liveness_probe() -> None:
    class Deaf:
        """Survives every cancellation."""

        async def full_pass(self) -> Outcome:
            while True:
                try:
                    await asyncio.sleep(1e6)
                except asyncio.CancelledError:
                    if done.is_set():
                        raise

        look = full_pass

    done = asyncio.Event()
    trigger = Trigger()
    trigger.mark(KEY)
    workers = Workers(trigger, no_keys, lambda _: Deaf(), resync=1e7)

    async with running(workers):
        await asyncio.sleep(10)
        assert liveness(workers) == "ok"
        await asyncio.sleep(STUCK_AFTER)
        with pytest.raises(kopf.PermanentError, match="stuck on McpProxy team/default"):
            liveness(workers)
        done.set()


@virtual_time
async def test_k8s_09_a_list_that_never_ends_fails_the_liveness_probe_and_one_that_fails_does_not() -> None:
    """What makes up for silent watches is watched itself."""
    answers: Callable[[], Awaitable[Iterable[ProxyKey]]]

    async def refused() -> Iterable[ProxyKey]:
        raise ClusterError("the API server is away", 503)

    async def never() -> Iterable[ProxyKey]:
        await asyncio.sleep(1e7)
        raise AssertionError

    async def keys() -> Iterable[ProxyKey]:
        return await answers()

    answers = refused
    workers = Workers(Trigger(), keys, lambda _: Recorded(lambda _: Outcome(wait=1e7)))
    async with running(workers):
        await asyncio.sleep(2 * STUCK_AFTER)
        assert liveness(workers) == "ok"
        answers = never
        await asyncio.sleep(2 * STUCK_AFTER)
        with pytest.raises(kopf.PermanentError, match="stuck on the list of all resources"):
            liveness(workers)
