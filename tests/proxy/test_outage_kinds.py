"""Every kind of outage: the error says whose and why, others do not notice, and what comes back is served at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.registry import control
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, hang
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

SOON = Timeouts(connect=1.0, request=3.0, max=6.0)
"""Short enough to wait for, long enough for a busy machine not to be taken for an outage."""


@contextlib.asynccontextmanager
async def refused(backend: ScriptedBackend) -> AsyncIterator[None]:
    """The process ended: its port refuses connections."""
    await backend.stop()
    yield
    await backend.start()


@contextlib.asynccontextmanager
async def black_holed(backend: ScriptedBackend) -> AsyncIterator[None]:
    """Packets go nowhere: nobody accepts, and the kernel's queue is full."""
    address = ("127.0.0.1", backend.server.port)
    await backend.stop()
    with socket.socket() as hole, contextlib.ExitStack() as fillers:
        hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hole.bind(address)
        hole.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(address)
        yield
    await backend.start()


@contextlib.asynccontextmanager
async def half_open(backend: ScriptedBackend) -> AsyncIterator[None]:
    """Connections stay, and new ones are accepted, but nothing is answered any more."""
    backend.intercept = hang
    yield
    backend.intercept = None


@contextlib.asynccontextmanager
async def slow(backend: ScriptedBackend) -> AsyncIterator[None]:
    """Everything is answered, later than anybody waits for."""

    async def dawdle(seen: Seen) -> HttpAnswer | None:
        await asyncio.sleep(2 * SOON.request)
        return None

    backend.intercept = dawdle
    yield
    backend.intercept = None


@contextlib.asynccontextmanager
async def failing(backend: ScriptedBackend) -> AsyncIterator[None]:
    """What stands before it answers in its place."""

    async def bad_gateway(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(502, b"bad gateway")

    backend.intercept = bad_gateway
    yield
    backend.intercept = None


@contextlib.asynccontextmanager
async def restarted(backend: ScriptedBackend) -> AsyncIterator[None]:
    """The process ended, and the next one knows none of its sessions."""
    await backend.stop()
    yield
    backend.lose_sessions()
    await backend.start()


Outage = Callable[[ScriptedBackend], AbstractAsyncContextManager[None]]


class Watch:
    """What Ready was, as often as it changed."""

    def __init__(self, proxy: RunningProxy) -> None:
        self.seen: list[bool] = []
        self._proxy = proxy
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            self._note()
            await asyncio.sleep(0.002)

    def _note(self) -> None:
        ready = self._proxy.report("bad").ready
        if self.seen[-1:] != [ready]:
            self.seen.append(ready)

    async def stop(self) -> list[bool]:
        self._task.cancel()
        await asyncio.wait({self._task})
        self._note()
        return self.seen


@pytest.fixture
async def watch(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> Watch:
    """``bad`` is about to be away, ``good`` is not."""
    monkeypatch.setattr(control, "HEALTH_INTERVAL", 0.2)
    monkeypatch.setattr(control, "PING_SECONDS", SOON.request)
    monkeypatch.setattr(control, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(control, "LONGEST_PAUSE", 0.2)
    good = await make_backend()
    await proxy.apply(http("bad", backend.url, timeouts=SOON), http("good", good.url))
    await proxy.until_ready("bad", "good")
    await proxy.announced()
    return Watch(proxy)


async def answered(client: Client, tool: str) -> str:
    """The text of the first call that succeeds."""
    async with asyncio.timeout(20):
        while True:
            answer = await client.call(tool)
            if "result" in answer.response:
                return answer.text


@pytest.mark.parametrize(
    ("outage", "reasons"),
    [
        (refused, {"Unreachable"}),
        (black_holed, {"Unreachable", "Timeout"}),
        (half_open, {"Timeout"}),
        (slow, {"Timeout"}),
        (failing, {"Unreachable"}),
        (restarted, {"Unreachable"}),
    ],
)
async def test_it_is_named_concerns_nobody_else_and_ends_by_itself(
    proxy: RunningProxy, backend: ScriptedBackend, watch: Watch, outage: Outage, reasons: set[str]
) -> None:
    client = await proxy.client(listening=True)
    assert (await client.call("bad_bump")).text == "1"
    mount = proxy.mount("bad")
    async with outage(backend):
        calling = asyncio.create_task(client.call("bad_bump"))
        assert (await client.call("good_bump")).text == "1"
        error = (await calling).error
        assert error["data"]["connection"] == "team/bad"
        assert error["data"]["reason"] in reasons
        assert "connection team/bad is unavailable" in error["message"]
        await proxy.until(lambda: not proxy.report("bad").ready)
        assert proxy.report("bad").reason in reasons
        assert (await client.call("good_bump")).text == "2"
        assert await client.names() == ["bad_echo", "bad_bump", "good_echo", "good_bump"], "kept for the grace period"
    assert int(await answered(client, "bad_bump")) >= 1
    await proxy.until_ready("bad")
    assert proxy.mount("bad") is mount
    assert await watch.stop() == [True, False, True]
    assert client.heard_of("notifications/tools/list_changed") == []


async def test_lost_sessions_are_none(proxy: RunningProxy, backend: ScriptedBackend, watch: Watch) -> None:
    client = await proxy.client()
    assert (await client.call("bad_bump")).text == "1"
    backend.lose_sessions()
    assert (await client.call("bad_bump")).text == "1", "in a new session"
    await proxy.announced()
    assert await watch.stop() == [True]


async def test_another_server_in_its_place_is_found_out_about(
    proxy: RunningProxy, backend: ScriptedBackend, watch: Watch
) -> None:
    client = await proxy.client(listening=True)
    await client.call("bad_bump")
    async with restarted(backend):
        await proxy.until(lambda: not proxy.report("bad").ready)
        backend.items["tools"].clear()
        backend.tools.clear()
        backend.tool("other")
        backend.server_info = {"name": "another", "version": "7"}
    await client.hear("notifications/tools/list_changed")
    assert await client.names() == ["bad_other", "good_echo", "good_bump"]
    assert (await client.call("bad_other")).text == "other"
    assert (await client.call("bad_bump")).error == {"code": -32602, "message": "Unknown tool: bad_bump"}
    report = proxy.report("bad")
    assert report.server is not None
    assert (report.server.name, report.server.version) == ("another", "7")
    assert await watch.stop() == [True, False, True]


async def test_flapping_is_not_amplified(proxy: RunningProxy, backend: ScriptedBackend, watch: Watch) -> None:
    client = await proxy.client(listening=True)
    flaps = 10
    for _ in range(flaps):
        async with restarted(backend):
            assert (await client.call("good_bump")).status == 200
            assert (await client.call("bad_bump")).error["data"]["connection"] == "team/bad"
        await answered(client, "bad_bump")
    await proxy.until_ready("bad")
    changes = await watch.stop()
    assert len(changes) <= 1 + 2 * flaps
    assert client.heard_of("notifications/tools/list_changed") == [], "what is back is what there was"
    # One session of the proxy's own and one of the client's each time, and not many attempts that came to nothing.
    assert len(backend.seen("initialize")) <= 2 + 4 * flaps
