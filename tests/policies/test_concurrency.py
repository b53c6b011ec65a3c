"""Turns, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from mcp_connections.proxy.policies import concurrency
from mcp_connections.proxy.policies.concurrency import NoTurn, Turns
from tests.operator.virtual_time import virtual_time


async def work(turns: Turns, seconds: float, order: list[int], number: int) -> None:
    await turns.take()
    try:
        order.append(number)
        await asyncio.sleep(seconds)
    finally:
        turns.give_back()


@virtual_time
async def test_no_more_than_the_limit_at_once_and_in_the_order_they_came() -> None:
    turns = Turns(2, patience=100)
    order: list[int] = []
    tasks = [asyncio.create_task(work(turns, 1, order, number)) for number in range(6)]
    await asyncio.sleep(0.5)
    assert (order, turns.waiting) == ([0, 1], 4)
    await asyncio.sleep(1)
    assert (order, turns.waiting) == ([0, 1, 2, 3], 2)
    await asyncio.gather(*tasks)
    assert (order, turns.waiting) == (list(range(6)), 0)


@virtual_time
async def test_a_wait_that_is_too_long_ends_and_leaves_the_turn_to_others() -> None:
    loop = asyncio.get_running_loop()
    turns = Turns(1, patience=5)
    order: list[int] = []
    holder = asyncio.create_task(work(turns, 7, order, 0))
    await asyncio.sleep(0)
    began = loop.time()
    with pytest.raises(NoTurn, match="none of them ended within 5 s"):
        await turns.take()
    assert loop.time() - began == pytest.approx(5, abs=0.01)
    late = asyncio.create_task(work(turns, 1, order, 1))
    await asyncio.gather(holder, late)
    assert order == [0, 1]
    await work(turns, 0, order, 2)


@virtual_time
async def test_a_full_queue_refuses_at_once() -> None:
    turns = Turns(1, patience=5)
    await turns.take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(concurrency.MAX_WAITING)]
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    with pytest.raises(NoTurn, match="1024 more are waiting already"):
        await turns.take()
    assert asyncio.get_running_loop().time() == before
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, NoTurn) for outcome in outcomes)
    assert turns.waiting == 0
    turns.give_back()
    await turns.take()


@virtual_time
async def test_whoever_is_cancelled_while_waiting_takes_no_turn_along() -> None:
    turns = Turns(1, patience=100)
    await turns.take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    turns.give_back()
    waiting[1].cancel()  # its turn has come, and it does not know yet
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    assert turns.waiting == 0
    turns.give_back()
    await asyncio.wait_for(turns.take(), 1)
