"""How long a lost backend's catalogue is still shown."""

from __future__ import annotations

import asyncio

import pytest

from mcp_connections.mounts.spec import CatalogPolicy
from mcp_connections.proxy.registry import control
from tests.backends.scripted import ScriptedBackend
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

TOOLS = "notifications/tools/list_changed"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(control, "LONGEST_PAUSE", 0.2)


async def mounted(proxy: RunningProxy, backend: ScriptedBackend, grace: float) -> Client:
    await proxy.apply(http("one", backend.url, catalog=CatalogPolicy(removal_grace=grace)))
    await proxy.announced()
    return await proxy.client(listening=True)


async def lose(proxy: RunningProxy, backend: ScriptedBackend, client: Client) -> None:
    await backend.stop()
    assert "error" in (await client.call("one_bump")).response
    await proxy.until(lambda: not proxy.report("one").ready)


async def test_none_at_all_withdraws_at_once_and_says_so(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    client = await mounted(proxy, backend, 0.0)
    await lose(proxy, backend, client)
    assert proxy.report("one").catalog.tools == 0, "in the very moment it is known"
    await client.hear(TOOLS)
    assert await client.names() == []
    error = (await client.call("one_bump")).error
    assert error["data"] == {"connection": "team/one", "reason": "Unreachable"}

    await backend.start()
    await client.hear(TOOLS, 2)
    assert await client.names() == ["one_echo", "one_bump"]
    assert (await client.call("one_bump")).text == "1"
    assert [message["method"] for message in client.heard] == [TOOLS, TOOLS]


async def test_a_backend_that_is_back_in_time_is_no_news(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    client = await mounted(proxy, backend, 60.0)
    published = proxy.mount("one").public
    for turn in range(3):
        await lose(proxy, backend, client)
        assert await client.names() == ["one_echo", "one_bump"]
        backend.lose_sessions()
        backend.items["tools"].reverse()  # many backends list in whatever order their tables have
        await backend.start()
        await proxy.until_ready("one")
        assert (await client.call("one_bump")).text == "1", f"a new session, turn {turn}"
    await proxy.announced()
    await client.notify("notifications/initialized")
    assert client.heard == []
    assert proxy.mount("one").public is published


async def test_after_the_grace_it_is_withdrawn_and_clients_are_told(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await proxy.apply(http("one", backend.url, catalog=CatalogPolicy(removal_grace=0.3)), http("other", other.url))
    await proxy.announced()
    client = await proxy.client(listening=True)
    await lose(proxy, backend, client)
    assert "one_bump" in await client.names()
    await client.hear(TOOLS)
    assert await client.names() == ["other_echo", "other_bump"]
    assert proxy.report("one").catalog.hash == ""
    await backend.start()
    await proxy.until_ready("one")
    await client.hear(TOOLS, 2)
    assert "one_bump" in await client.names()


async def test_a_lost_session_is_no_outage(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    client = await mounted(proxy, backend, 0.0)
    await asyncio.sleep(2 * control.FIRST_PAUSE)  # a session that is lost sooner than that is not worth having
    handshakes = len(backend.seen("initialize"))
    backend.lose_sessions()
    proxy.mount("one").suspect()
    await backend.until(lambda: len(backend.seen("initialize")) > handshakes)
    await proxy.until_ready("one")
    await proxy.announced()
    assert await client.names() == ["one_echo", "one_bump"]
    await client.notify("notifications/initialized")
    assert client.heard == []
