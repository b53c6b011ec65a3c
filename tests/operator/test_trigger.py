"""A thousand events make few passes, and no change is ever lost between two of them."""

from __future__ import annotations

import asyncio

import pytest

from mcp_connections.operator.trigger import CAP, QUIET, DirtyFlag, ProxyKey, Trigger
from tests.operator.virtual_time import virtual_time

KEY = ProxyKey("team", "default")


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_a_mark_wakes_once_it_has_been_quiet() -> None:
    flag = DirtyFlag()
    flag.mark()

    assert await flag.wait(60)
    assert now() == pytest.approx(QUIET, abs=0.01)


@virtual_time
async def test_without_a_mark_the_wait_times_out() -> None:
    assert not await DirtyFlag().wait(15)
    assert now() == pytest.approx(15, abs=0.01)


@virtual_time
async def test_a_burst_wakes_once() -> None:
    flag = DirtyFlag()

    async def burst() -> None:
        for _ in range(10):
            flag.mark()
            await asyncio.sleep(QUIET / 2)

    async with asyncio.TaskGroup() as group:
        group.create_task(burst())
        assert await flag.wait(60)
        flag.clear()
        assert not await flag.wait(60)


@virtual_time
async def test_an_endless_stream_of_events_cannot_put_a_pass_off() -> None:
    flag = DirtyFlag()

    async def stream() -> None:
        while True:
            flag.mark()
            await asyncio.sleep(QUIET / 2)

    streaming = asyncio.create_task(stream())
    assert await flag.wait(60)
    assert now() == pytest.approx(CAP, abs=QUIET)
    streaming.cancel()


@virtual_time
async def test_a_thousand_events_over_ten_seconds_make_few_passes() -> None:
    flag, passes = DirtyFlag(), 0

    async def events() -> None:
        for _ in range(1000):
            flag.mark()
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        group.create_task(events())
        while await flag.wait(30):
            flag.clear()
            passes += 1

    assert 1 <= passes <= 10 / CAP + 1


@virtual_time
async def test_a_mark_during_a_pass_makes_another() -> None:
    flag = DirtyFlag()
    flag.mark()
    assert await flag.wait(60)
    flag.clear()

    flag.mark()

    assert flag.is_set
    assert await flag.wait(60)


@virtual_time
async def test_a_new_key_arrives_once() -> None:
    trigger = Trigger()
    trigger.mark(KEY)
    trigger.mark(KEY)

    assert await trigger.arrivals() == [KEY]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await trigger.arrivals()


@virtual_time
async def test_a_key_that_was_marked_meanwhile_is_not_forgotten() -> None:
    trigger = Trigger()
    trigger.mark(KEY)
    trigger.flag(KEY).clear()
    trigger.mark(KEY)

    assert not trigger.forget(KEY)
    assert await trigger.flag(KEY).wait(60)


@virtual_time
async def test_a_forgotten_key_arrives_again() -> None:
    trigger = Trigger()
    trigger.mark(KEY)
    assert await trigger.arrivals() == [KEY]
    trigger.flag(KEY).clear()

    assert trigger.forget(KEY)
    trigger.mark(KEY)

    assert await trigger.arrivals() == [KEY]


@virtual_time
async def test_mark_all_also_marks_what_nobody_lists_any_more() -> None:
    trigger = Trigger()
    trigger.mark(KEY)
    trigger.flag(KEY).clear()
    other = ProxyKey("team", "other")

    trigger.mark_all([other])

    assert trigger.flag(KEY).is_set
    assert trigger.flag(other).is_set
