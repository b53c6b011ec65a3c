"""However many clients ask at once, a backend is asked once: counted at the backend."""

from __future__ import annotations

import asyncio
from collections import Counter

from mcp_connections.mounts.spec import CatalogPolicy
from tests.backends.scripted import LIST_METHODS, HttpAnswer, ScriptedBackend, Seen
from tests.clients.stateless_client import StatelessClient
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

CLIENTS = 100


def lists_of(backend: ScriptedBackend) -> Counter[str]:
    """How often each list was asked for."""
    return Counter(seen.rpc for seen in backend.requests if seen.rpc in LIST_METHODS)


ONCE = Counter(dict.fromkeys(LIST_METHODS, 1))


async def test_a_hundred_clients_that_connect_at_once_cause_one_refresh_a_backend(
    proxy: RunningProxy, make_backend: MakeBackend
) -> None:
    backends = [await make_backend() for _ in range(3)]
    held = asyncio.Event()

    async def hold(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "tools/list":
            await held.wait()
        return None

    for backend in backends:
        backend.intercept = hold
    reload = asyncio.create_task(
        proxy.apply(*(http(f"b{number}", backend.url) for number, backend in enumerate(backends)))
    )
    await eventually(lambda: all(backend.seen("tools/list") for backend in backends))

    async def connect() -> list[str]:
        client = await proxy.client(listening=True)
        return await client.names()

    clients = [asyncio.create_task(connect()) for _ in range(CLIENTS)]
    await asyncio.sleep(0.2)
    held.set()
    names = await asyncio.gather(*clients)
    await reload
    expected = [f"b{number}_{tool}" for number in range(3) for tool in ("echo", "bump")]
    assert names == [expected] * CLIENTS
    assert [lists_of(backend) for backend in backends] == [ONCE] * 3
    assert [len(backend.sessions) for backend in backends] == [1] * 3, "listing opens no sessions for clients"


async def test_lists_and_introductions_of_connected_clients_ask_no_backend(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    before = tuple(backend.requests)
    clients = [await proxy.client() for _ in range(20)]
    await asyncio.gather(*(client.names(method) for client in clients for method in LIST_METHODS for _ in range(5)))
    since = [seen for seen in backend.requests if seen not in before]
    assert {seen.rpc for seen in since} <= {"", "ping"}, "the proxy's own session may listen and be checked"
    assert len(backend.sessions) == 1
    assert lists_of(backend) == ONCE


async def test_a_storm_of_list_changed_is_one_refresh(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    clients = [await proxy.client(listening=True) for _ in range(20)]
    await asyncio.gather(*(client.call("one_bump") for client in clients))
    await backend.until(lambda: len(backend.live) == 21 and all(session.listening for session in backend.live))
    backend.tool("new")
    for _ in range(10):
        backend.notify_all("notifications/tools/list_changed")
    for client in clients:
        await client.hear("notifications/tools/list_changed")
    assert "one_new" in await clients[0].names()
    # Two hundred and ten notifications reach the proxy over as many streams as sessions, hardly all within one burst.
    assert lists_of(backend)["tools/list"] <= 20


async def test_changes_during_a_refresh_cause_one_more(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    held, holding = asyncio.Event(), asyncio.Event()

    async def hold(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "tools/list":
            holding.set()
            await held.wait()
        return None

    backend.intercept = hold
    mount = proxy.mount("one")
    mount.list_changed()
    await holding.wait()
    for _ in range(50):
        mount.list_changed()
        mount.suspect()
    held.set()
    await eventually(lambda: lists_of(backend)["tools/list"] == 3)
    await asyncio.sleep(0.3)
    assert lists_of(backend)["tools/list"] == 3, "the first one, the one that was held, and one for all fifty"


async def test_the_refreshes_of_mounts_are_their_own(proxy: RunningProxy, make_backend: MakeBackend) -> None:
    quick, slow = await make_backend(), await make_backend()
    await proxy.apply(
        http("quick", quick.url, catalog=CatalogPolicy(refresh_interval=0.2)),
        http("slow", slow.url, catalog=CatalogPolicy(refresh_interval=3600)),
    )
    await quick.until(lambda: lists_of(quick)["tools/list"] >= 3)
    assert lists_of(slow) == ONCE


async def test_first_calls_of_one_client_open_one_session(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    answers = await asyncio.gather(*(client.call("one_bump") for _ in range(50)))
    assert sorted(int(answer.text) for answer in answers) == list(range(1, 51))
    assert len(backend.sessions) == 2, "the proxy's own, and the client's"


async def test_failed_calls_of_a_hundred_clients_cause_one_look(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    clients = [await proxy.client() for _ in range(20)]
    await asyncio.gather(*(client.call("one_bump") for client in clients))
    gate = asyncio.Event()

    async def fail(seen: Seen) -> HttpAnswer | None:
        if seen.rpc != "tools/call":
            return None
        await gate.wait()
        return HttpAnswer(502)

    backend.intercept = fail
    pings = len(backend.seen("ping"))
    calls = [asyncio.create_task(client.call("one_bump")) for client in clients for _ in range(5)]
    await eventually(lambda: proxy.report("one").in_flight == 100)
    gate.set()
    answers = await asyncio.gather(*calls)
    assert {answer.error["data"]["reason"] for answer in answers} == {"Unreachable"}
    await eventually(lambda: len(backend.seen("ping")) > pings)
    assert len(backend.seen("ping")) - pings <= 20
    assert proxy.report("one").ready


async def test_stateless_clients_that_come_at_once_are_asked_for_once(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    """Whether a backend serves them in their own era, and with what, is found out once for all of them."""
    await proxy.apply(http("one", backend.url))
    clients = [StatelessClient(proxy.http, proxy.url, name=f"client {number}") for number in range(CLIENTS)]
    answers = await asyncio.gather(*(client.request("tools/list") for client in clients))
    assert {len(answer.result["tools"]) for answer in answers} == {2}
    await asyncio.gather(*(client.call("one_echo") for client in clients[:10]))
    assert len(backend.seen("server/discover")) <= 1
    assert lists_of(backend) == ONCE
