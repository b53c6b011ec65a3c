"""Slots for sessions, in virtual time."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mcp_connections.proxy.upstream.session import UpstreamSession
from mcp_connections.proxy.upstream.session_slots import NoSlot, SessionSlot, SessionSlots
from tests.operator.virtual_time import virtual_time


class Session:
    """As much of an UpstreamSession as slots have to do with."""

    slot: SessionSlot | None = None

    async def aclose(self, seconds: float = 1.0) -> None:
        assert self.slot is not None
        self.slot.ending()
        await asyncio.sleep(seconds)
        self.slot.free()


async def opened(slots: SessionSlots) -> Session:
    async def opening() -> UpstreamSession:
        return cast(UpstreamSession, Session())

    return cast(Session, await slots.hold(opening))


@virtual_time
async def test_as_many_as_there_are_slots() -> None:
    slots = SessionSlots(2, patience=5)
    first = await opened(slots)
    await opened(slots)
    before = asyncio.get_running_loop().time()
    with pytest.raises(NoSlot, match=r"session\.maxSessions allows clients 2 at once"):
        await opened(slots)
    assert asyncio.get_running_loop().time() == before, "nobody waits for sessions that are in use"
    await first.aclose()
    await opened(slots)
    with pytest.raises(NoSlot):
        await opened(slots)


@virtual_time
async def test_a_session_that_is_ending_is_waited_for() -> None:
    slots = SessionSlots(1, patience=5)
    first = await opened(slots)
    ending = asyncio.create_task(first.aclose(3))
    await asyncio.sleep(0)
    outcomes = await asyncio.gather(opened(slots), opened(slots), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Session, NoSlot]
    assert ending.done()


@virtual_time
async def test_but_not_for_ever() -> None:
    slots = SessionSlots(1, patience=5)
    first = await opened(slots)
    ending = asyncio.create_task(first.aclose(60))
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    with pytest.raises(NoSlot):
        await opened(slots)
    assert asyncio.get_running_loop().time() - before == pytest.approx(5, abs=0.01)
    await ending
    await opened(slots)


@virtual_time
async def test_an_opening_that_fails_takes_up_nothing() -> None:
    slots = SessionSlots(1, patience=5)

    async def failing() -> UpstreamSession:
        raise ConnectionResetError

    for _ in range(3):
        with pytest.raises(ConnectionResetError):
            await slots.hold(failing)
    await opened(slots)


@virtual_time
async def test_closing_twice_frees_one_slot() -> None:
    slots = SessionSlots(2, patience=5)
    first = await opened(slots)
    await opened(slots)
    await first.aclose()
    await first.aclose()
    await opened(slots)
    with pytest.raises(NoSlot):
        await opened(slots)
