"""Connected clients hear of every change of a list, once, however it came about."""

from __future__ import annotations

import pytest

from tests.backends.scripted import ScriptedBackend
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
PROMPTS = "notifications/prompts/list_changed"


async def heard(proxy: RunningProxy, client: Client) -> list[str]:
    """What the client heard since it was last asked, once everything has been announced."""
    await proxy.announced()
    await client.notify("notifications/initialized")  # a round trip: what was sent before it has arrived
    methods = [message["method"] for message in client.heard]
    client.heard.clear()
    return methods


@pytest.fixture
async def client(proxy: RunningProxy, backend: ScriptedBackend) -> Client:
    """A client that listens, with one connection mounted."""
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    return await proxy.client(listening=True)


async def test_a_change_of_the_backend_is_announced_once_before_and_after_a_reload(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await backend.until(lambda: any(session.listening for session in backend.live))
    for number in range(3):
        backend.tool(f"late{number}")
        backend.notify_all(TOOLS)
        await client.hear(TOOLS)
        assert await heard(proxy, client) == [TOOLS]
        assert f"one_late{number}" in await client.names()
        assert (await client.call(f"one_late{number}")).text == f"late{number}"
        await proxy.apply(http("one", backend.url), *[http("other", other.url)][: number % 2])
        await proxy.announced()
        await heard(proxy, client)


async def test_a_burst_of_changes_is_announced_once(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    await backend.until(lambda: any(session.listening for session in backend.live))
    await client.call("one_bump")  # now two sessions of the backend tell of the change
    await backend.until(lambda: sum(session.listening for session in backend.live) == 2)
    listed = len(backend.seen("tools/list"))
    for number in range(10):
        backend.tool(f"late{number}")
        backend.notify_all(TOOLS)
    await client.hear(TOOLS)
    assert await heard(proxy, client) == [TOOLS]
    assert len(backend.seen("tools/list")) <= listed + 2


async def test_list_changed_without_a_change_is_not_passed_on(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    await backend.until(lambda: any(session.listening for session in backend.live))
    listed = len(backend.seen("tools/list"))
    backend.notify_all(TOOLS)
    await backend.until(lambda: len(backend.seen("tools/list")) > listed)
    assert await heard(proxy, client) == []


async def test_each_kind_of_list_is_announced_by_its_own_notification(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client
) -> None:
    await backend.until(lambda: any(session.listening for session in backend.live))
    backend.resource("doc://a")
    backend.notify_all(RESOURCES)
    await client.hear(RESOURCES)
    assert await heard(proxy, client) == [RESOURCES]
    backend.template("doc://{id}")
    backend.notify_all(RESOURCES)
    await client.hear(RESOURCES)
    assert await heard(proxy, client) == [RESOURCES]
    backend.add_item("prompts", {"name": "greet"})
    backend.notify_all(PROMPTS)
    await client.hear(PROMPTS)
    assert await heard(proxy, client) == [PROMPTS]


async def test_reloads_are_announced_once_each(
    proxy: RunningProxy, backend: ScriptedBackend, client: Client, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    other.resource("doc://a")
    await proxy.apply(http("one", backend.url), http("other", other.url))
    assert sorted(await heard(proxy, client)) == [RESOURCES, TOOLS]

    await proxy.apply(http("one", backend.url), http("other", other.url, prefix="renamed", fingerprint="2"))
    assert sorted(await heard(proxy, client)) == [RESOURCES, TOOLS]
    assert "renamed_bump" in await client.names()

    await proxy.apply(http("one", backend.url), http("other", other.url, prefix="renamed", fingerprint="3"))
    assert await heard(proxy, client) == [], "another mount with the same lists is no change of the lists"

    await proxy.apply(http("one", backend.url), http("other", other.url, prefix="renamed", fingerprint="3"))
    assert await heard(proxy, client) == []

    await proxy.apply(http("one", backend.url))
    assert sorted(await heard(proxy, client)) == [RESOURCES, TOOLS]


async def test_a_client_that_opens_its_stream_later_hears_what_it_missed(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    client = await proxy.client()
    other = await make_backend()
    await proxy.apply(http("one", backend.url), http("other", other.url))
    await proxy.announced()
    await client.listen()
    await client.hear(TOOLS)
    assert await heard(proxy, client) == [TOOLS]


async def test_every_connected_client_hears_of_a_change(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    clients = [await proxy.client(listening=True) for _ in range(5)]
    await proxy.apply()
    for client in clients:
        assert await heard(proxy, client) == [TOOLS]
        assert await client.names() == []


async def test_list_changed_is_declared(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = proxy.new_client()
    capabilities = (await client.initialize()).result["capabilities"]
    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
    assert capabilities["prompts"] == {"listChanged": True}
    assert capabilities["logging"] == {}
    assert capabilities["completions"] == {}


async def test_a_change_that_is_undone_at_once_is_announced_to_those_who_saw_it(
    proxy: RunningProxy,
    backend: ScriptedBackend,
    client: Client,
    make_backend: MakeBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.registry.registry.ANNOUNCE_SECONDS", 1.0)
    other = await make_backend()
    await proxy.apply(http("one", backend.url), http("other", other.url))
    assert "other_bump" in await client.names()
    await proxy.apply(http("one", backend.url))
    assert await client.names() == ["one_echo", "one_bump"]
    await client.hear(TOOLS)


async def test_a_backend_that_is_too_busy_for_a_stream_is_asked_again(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.01)
    backend.refuses_get = 429
    await proxy.apply(http("one", backend.url))
    await backend.until(lambda: [seen for seen in backend.requests if seen.method == "GET"])
    backend.refuses_get = None
    await backend.until(lambda: any(session.listening for session in backend.live))
    backend.tool("late")
    backend.notify_all(TOOLS)
    await proxy.until(lambda: "one_late" in proxy.report("one").catalog.names)
