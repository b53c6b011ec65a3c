"""Nothing is left of clients that have gone: no session, no task, no connection, no object."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import pytest

from mcp_connections.proxy.downstream import client_session
from mcp_connections.proxy.downstream.client_session import ClientSession
from mcp_connections.proxy.registry.leg import Leg
from mcp_connections.proxy.upstream.session import UpstreamSession
from tests.backends.scripted import ScriptedBackend
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

KINDS = (ClientSession, Leg, UpstreamSession)


def census() -> tuple[int, ...]:
    """How many objects of each kind are alive."""
    gc.collect()
    found = Counter(type(each) for each in gc.get_objects() if issubclass(type(each), KINDS))
    return tuple(sum(found[each] for each in found if issubclass(each, kind)) for kind in KINDS)


def tasks() -> int:
    return len(asyncio.all_tasks())


def swept(table: client_session.SessionTable) -> int:
    """How many sessions are left after the sweep that is due every 30 s."""
    table._sweep()  # noqa: SLF001
    return len(table)


@pytest.mark.parametrize(("leaving", "clients"), [("delete", 200), ("silently", 60)])
async def test_clients_leave_nothing_behind(
    proxy: RunningProxy,
    backend: ScriptedBackend,
    make_backend: MakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    leaving: str,
    clients: int,
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.channels.http_client.IDLE_SECONDS", 0.5)
    other = await make_backend()
    other.answers_with_sse = True
    await proxy.apply(http("one", backend.url), http("other", other.url))
    await proxy.announced()
    alive, before = census(), tasks()

    async def visit(number: int) -> None:
        client = Client(proxy.http, proxy.url)
        await client.initialize(capabilities={"roots": {}})
        if number % 4 == 0:
            await client.listen()
        for _ in range(2):
            await client.call("one_bump")
            await client.call("other_bump", _meta={"progressToken": 1})
        if number % 3 == 0:
            await client.request("resources/subscribe", {"uri": "doc://one/a"})
        if leaving == "delete":
            assert await client.delete() == 200
        else:
            await client.aclose()

    for start in range(0, clients, 20):
        await asyncio.gather(*(visit(number) for number in range(start, start + 20)))
    if leaving == "silently":
        assert len(backend.live) > 50
        monkeypatch.setattr(client_session, "IDLE_SECONDS", 0.0)
        await eventually(lambda: swept(proxy.process.sessions) == 0)
    assert len(backend.sessions) > clients

    await backend.until(lambda: len(backend.live) == 1)
    await other.until(lambda: len(other.live) == 1)
    assert len(proxy.process.sessions) == 0
    assert [proxy.report(name).sessions for name in ("one", "other")] == [1, 1]
    await eventually(lambda: tasks() <= before + 2)
    await eventually(lambda: census() == alive)
    await eventually(lambda: backend.server.connections <= 5)
    if leaving == "delete":
        assert backend.server.accepted <= 400, "connections are shared: there were more than 1200 requests"


async def test_reloads_leave_nothing_behind(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    await client.call("one_bump")
    before, alive = tasks(), census()
    for number in range(40):
        await proxy.apply(http("one", backend.url, fingerprint=str(number)))
        await client.call("one_bump")
    await eventually(lambda: all(each.state == "Closed" for each in proxy.registry.report().retired))
    await backend.until(lambda: len(backend.live) == 2)
    await eventually(lambda: tasks() <= before + 2)
    await eventually(lambda: census() == alive)
    await eventually(lambda: backend.server.connections <= 12)


async def test_failing_attempts_leave_nothing_behind(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.registry.control.FIRST_PAUSE", 0.005)
    monkeypatch.setattr("mcp_connections.proxy.registry.control.LONGEST_PAUSE", 0.005)
    backend.versions = ("1999-01-01",)
    await proxy.apply(http("one", backend.url))
    await backend.until(lambda: len(backend.seen("initialize")) >= 5)
    before, alive = tasks(), census()
    count = len(backend.seen("initialize"))
    await backend.until(lambda: len(backend.seen("initialize")) >= count + 50)
    await eventually(lambda: len(backend.live) <= 2)
    assert tasks() <= before + 4
    assert sum(census()) <= sum(alive) + 3
