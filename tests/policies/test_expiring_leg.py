"""When an unused session is ended, in virtual time; ``test_sessions`` has the same with real ones."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from msgspec import Raw

from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.expiring_leg import ExpiringLeg
from mcp_connections.proxy.upstream.session import UpstreamEvents, UpstreamSession
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope
from tests.operator.virtual_time import virtual_time
from tests.proxy.desired import http

IDLE = 900.0
CALL: Envelope = {"method": Raw(b'"tools/call"')}


class Session:
    """A session that answers after a while."""

    def __init__(self) -> None:
        self.fault: ChannelError | None = None
        self.capabilities: dict[str, Any] = {}
        self.seconds = 0.0

    async def request(self, message: Envelope, scope: object = None) -> Envelope:
        await asyncio.sleep(self.seconds)
        return {"result": Raw(b"{}")}

    def listen(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Mount:
    """Opens sessions, and remembers when they were ended."""

    label = "team/one"
    spec = http("one", "http://127.0.0.1:1/mcp")

    def __init__(self) -> None:
        self.opened: list[Session] = []
        self.ended: list[float] = []

    async def open_session(self, hello: Hello, events: UpstreamEvents) -> UpstreamSession:
        self.opened.append(Session())
        return cast(UpstreamSession, self.opened[-1])

    def close_session(self, session: Session) -> None:
        assert session is self.opened[-1]
        self.ended.append(now())

    def suspect(self) -> None:
        pass


class ClientStub:
    """A client that only calls."""

    hello = Hello(b"{}", b"{}")
    log_level = None
    era = "handshake"
    listening = False


CLIENT = cast(Client, ClientStub())


def now() -> float:
    return asyncio.get_running_loop().time()


def leg_of(mount: Mount) -> ExpiringLeg:
    return ExpiringLeg(cast(Any, mount), CLIENT, IDLE)


def timers() -> int:
    """Timers of the loop that are still to go off."""
    scheduled = cast(Any, asyncio.get_running_loop())._scheduled  # noqa: SLF001
    return sum(not timer.cancelled() for timer in scheduled)


@virtual_time
async def test_it_ends_when_the_time_is_over_and_not_before() -> None:
    mount = Mount()
    leg = leg_of(mount)
    await leg.call(CLIENT, CALL, None)
    begun = now()
    await asyncio.sleep(IDLE - 1)
    assert (mount.ended, leg.active) == ([], True)
    await asyncio.sleep(2)
    assert not leg.active
    assert [round(each - begun) for each in mount.ended] == [IDLE]
    await asyncio.sleep(10 * IDLE)
    assert (len(mount.opened), len(mount.ended), timers()) == (1, 1, 0), "nothing ticks for a session that is not there"
    await leg.call(CLIENT, CALL, None)
    assert len(mount.opened) == 2
    await asyncio.sleep(IDLE + 1)
    assert len(mount.ended) == 2


@virtual_time
async def test_each_use_begins_the_time_anew() -> None:
    mount = Mount()
    leg = leg_of(mount)
    for _ in range(5):
        await leg.call(CLIENT, CALL, None)
        assert timers() == 1, "one timer, however often it is used"
        await asyncio.sleep(IDLE * 0.9)
    last_used = now() - IDLE * 0.9
    assert mount.ended == []
    await asyncio.sleep(IDLE)
    assert [round(each - last_used) for each in mount.ended] == [IDLE]


@virtual_time
async def test_a_call_that_takes_longer_than_the_time_keeps_it() -> None:
    mount = Mount()
    leg = leg_of(mount)
    await leg.call(CLIENT, CALL, None)
    mount.opened[0].seconds = 10 * IDLE
    begun = now()
    await leg.call(CLIENT, CALL, None)
    assert (round(now() - begun), mount.ended) == (10 * IDLE, [])
    await asyncio.sleep(2 * IDLE)
    assert len(mount.ended) == 1
    assert mount.ended[0] - begun <= 12 * IDLE


@virtual_time
async def test_subscriptions_keep_it() -> None:
    mount = Mount()
    leg = leg_of(mount)
    await leg.subscribe(CLIENT, "doc://a", CALL)
    await asyncio.sleep(10 * IDLE)
    assert mount.ended == []
    await leg.unsubscribe(CLIENT, "doc://a", CALL)
    await asyncio.sleep(2 * IDLE)
    assert len(mount.ended) == 1


@virtual_time
async def test_a_closed_leg_has_no_timer() -> None:
    mount = Mount()
    leg = leg_of(mount)
    await leg.call(CLIENT, CALL, None)
    await leg.aclose()
    assert timers() == 0
    await asyncio.sleep(2 * IDLE)
    assert mount.ended == []
