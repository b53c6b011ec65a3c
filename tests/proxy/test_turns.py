"""Many connections to one server do not overwhelm it: they take turns."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.registry import control, turns
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, hang
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

MANY = 60
NAMES = [f"c{number}" for number in range(MANY)]


class Crowd:
    """Takes its time with each request, and counts how many of a kind it has at once."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def __call__(self, seen: Seen) -> HttpAnswer | None:
        self.inside[seen.rpc] += 1
        self.most[seen.rpc] = max(self.most[seen.rpc], self.inside[seen.rpc])
        try:
            await asyncio.sleep(0.02)
        finally:
            self.inside[seen.rpc] -= 1
        return None


async def test_connections_to_one_origin_connect_and_ping_a_few_at_a_time(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "HEALTH_INTERVAL", 0.05)
    crowd = backend.intercept = Crowd()
    await proxy.apply(*(http(name, backend.url) for name in NAMES))
    await proxy.until_ready(*NAMES)
    assert len(backend.seen("initialize")) == MANY, "nobody had to try twice"
    assert crowd.most["initialize"] == turns.AT_ONCE
    await eventually(lambda: len({seen.session for seen in backend.seen("ping")}) == MANY)
    assert crowd.most["ping"] == turns.AT_ONCE


async def test_the_last_of_many_learns_of_an_outage_too(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "HEALTH_INTERVAL", 0.05)
    monkeypatch.setattr(control, "PING_SECONDS", 30.0)
    monkeypatch.setattr(turns, "PING_TURN", 0.05)
    await proxy.apply(*(http(name, backend.url) for name in NAMES))
    await proxy.until_ready(*NAMES)
    backend.intercept = hang
    asked = len(backend.requests)
    await eventually(lambda: len({seen.session for seen in backend.requests[asked:]}) == MANY)


async def silent_but_for_one(seen: Seen) -> HttpAnswer | None:
    if seen.headers.get("x-which") != "fine":
        await asyncio.Event().wait()
    return None


async def test_those_that_hang_do_not_keep_others_of_their_origin_waiting(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "STALLED", 0.05)
    monkeypatch.setattr("mcp_connections.proxy.channels.connecting.HANDSHAKE_SECONDS", 3600.0)
    backend.intercept = silent_but_for_one
    await proxy.apply(
        *(http(name, backend.url) for name in NAMES), http("fine", backend.url, headers={"x-which": "fine"})
    )
    await proxy.until_ready("fine")


async def test_one_origin_does_not_wait_for_another(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "STALLED", 3600.0)
    other = ScriptedBackend()
    other.intercept = hang
    async with other.serving():
        await proxy.apply(*(http(name, other.url) for name in NAMES), http("last", backend.url))
        await proxy.until_ready("last")
        assert len(other.seen("initialize")) == turns.AT_ONCE
        await proxy.apply()


async def test_those_that_failed_before_leave_turns_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STALLED", 3600.0)
    origin = turns.Turns()
    inside = 0

    async def hang() -> None:
        nonlocal inside
        async with origin.to_connect(again=True):
            inside += 1
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        hanging = [group.create_task(hang()) for _ in NAMES]
        await eventually(lambda: inside)
        async with origin.to_connect(again=False):
            assert inside == turns.AGAIN_AT_ONCE
        for task in hanging:
            task.cancel()
    async with asyncio.timeout(20):
        for _ in range(2 * turns.AT_ONCE):
            async with origin.to_connect(again=True):
                pass


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "http://u:p@H:80/b?c", True),
        ("https://h/", "https://h:443/", True),
        ("https://h/", "http://h/", False),
        ("http://h:8080/", "http://h/", False),
        ("http://h:x/", "http://h:y/", False),
    ],
)
def test_turns_are_those_of_an_origin(one: str, other: str, same: bool) -> None:
    by_origin = turns.TurnsByOrigin()
    held = by_origin.at(HttpServer(url=one))
    assert (by_origin.at(HttpServer(url=other)) is held) is same


async def test_a_check_does_not_wait_for_its_turn_for_ever(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(turns, "PING_TURN", 60.0)
    await proxy.apply(*(http(name, backend.url) for name in NAMES))
    await proxy.until_ready(*NAMES)
    backend.intercept = hang
    health = await proxy.process.check_health()
    assert {each.healthy for each in health} == {False}
    assert any("its turn to be pinged did not come within 0.2 s" in each.message for each in health)
