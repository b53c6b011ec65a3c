"""One backend's trouble stays its own: the others are listed and called, and the error says which and why."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from mcp_connections.mounts.spec import CatalogPolicy, Timeouts
from mcp_connections.proxy.process import ProxyProcess
from mcp_connections.proxy.registry import control, registry
from tests.backends.http_server import free_socket
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, hang
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http, key
from tests.proxy.running import RunningProxy, eventually, running_proxy


async def fail(seen: Seen) -> HttpAnswer | None:
    return HttpAnswer(500, b"out of order")


async def status(proxy: RunningProxy, path: str) -> int:
    async with proxy.http.get(f"{proxy.origin}{path}") as response:
        return response.status


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_the_first_list_comes_within_five_seconds_whatever_the_others_do(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    failing, silent, unlisted = await make_backend(), await make_backend(), await make_backend()
    failing.intercept = fail
    silent.intercept = hang

    async def hang_at_lists(seen: Seen) -> HttpAnswer | None:
        return await hang(seen) if seen.rpc == "tools/list" else None

    unlisted.intercept = hang_at_lists
    with free_socket() as nobody, unreachable_port() as unconnectable:
        started = now()
        reload = asyncio.create_task(
            proxy.apply(
                http("unconnectable", f"http://127.0.0.1:{unconnectable}/mcp"),
                http("silent", silent.url),
                http("unlisted", unlisted.url),
                http("refusing", f"http://127.0.0.1:{nobody.getsockname()[1]}/mcp"),
                http("failing", failing.url),
                http("good", backend.url),
            )
        )
        await eventually(lambda: proxy.registry.mounts)
        client = await proxy.client()
        names = await client.names()
        elapsed = now() - started
        assert names == ["good_echo", "good_bump"]
        assert elapsed < 5.0
        assert (await client.call("good_bump")).text == "1"
        await reload
        assert now() - started < 5.0
        for name in ("unconnectable", "silent", "unlisted"):
            assert not proxy.report(name).attempted

        # Those that come later, while the backends still hang, do not wait for them again.
        started = now()
        other = await proxy.client()
        assert await other.names() == ["good_echo", "good_bump"]
        assert now() - started < 2.0
        assert (await other.call("refusing_anything")).error["data"]["reason"] == "Unreachable"


@contextlib.contextmanager
def unreachable_port() -> Iterator[int]:
    """A port at which connections are neither accepted nor refused, like behind a firewall: its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(free_socket())
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_ready_once_every_mount_was_tried_well_or_badly(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    failing = await make_backend()
    released = asyncio.Event()

    async def held(seen: Seen) -> HttpAnswer | None:
        await released.wait()
        return HttpAnswer(500)

    failing.intercept = held
    assert await status(proxy, "/readyz") == 503, "nothing was applied yet"
    reload = asyncio.create_task(proxy.apply(http("good", backend.url), http("failing", failing.url)))
    await proxy.until(lambda: len(proxy.registry.mounts) == 2 and proxy.mount("good").ready)
    assert await status(proxy, "/readyz") == 503
    assert await status(proxy, "/healthz") == 200
    released.set()
    await proxy.until(lambda: proxy.registry.ready)
    assert await status(proxy, "/readyz") == 200
    await reload


async def test_ready_after_ten_seconds_whatever_the_backends_do(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.READY_SECONDS == 10.0
    monkeypatch.setattr(registry, "READY_SECONDS", 0.5)
    monkeypatch.setattr(registry, "SETTLE_SECONDS", 0.1)
    backend.intercept = hang
    await proxy.apply(http("hung", backend.url))
    assert await status(proxy, "/readyz") == 503
    await asyncio.sleep(0.5)
    assert await status(proxy, "/readyz") == 200
    assert not proxy.report("hung").attempted


async def test_readiness_is_not_lost_when_a_mount_is_added(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SETTLE_SECONDS", 0.1)
    hanging = await make_backend()
    hanging.intercept = hang
    await proxy.apply(http("good", backend.url))
    assert await status(proxy, "/readyz") == 200
    await proxy.apply(http("good", backend.url), http("hung", hanging.url))
    assert not proxy.report("hung").attempted
    assert await status(proxy, "/readyz") == 200


async def test_strict_is_ready_only_while_every_connection_is(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    failing = await make_backend()
    failing.intercept = fail
    await proxy.apply(http("good", backend.url), start_policy="Strict")
    assert await status(proxy, "/readyz") == 200
    await proxy.apply(http("good", backend.url), http("failing", failing.url), start_policy="Strict")
    assert await status(proxy, "/readyz") == 503
    failing.intercept = None
    await proxy.until_ready("failing")
    assert await status(proxy, "/readyz") == 200


async def test_a_connection_that_was_never_up_is_named_with_the_cause(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    with free_socket() as nobody:
        port = nobody.getsockname()[1]
        await proxy.apply(http("dead", f"http://127.0.0.1:{port}/mcp"), http("good", backend.url))
        client = await proxy.client()
        error = (await client.call("dead_anything")).error
        assert error["code"] == -32603
        assert error["data"] == {"connection": "team/dead", "reason": "Unreachable"}
        assert "connection team/dead is unavailable (Unreachable)" in error["message"]
        cause = f"cannot connect to 127.0.0.1:{port}: Connection refused"
        assert f"{cause}; check that it is up and listens at this address" in error["message"]
        prompt = (await client.request("prompts/get", {"name": "dead_x"})).error
        assert prompt["data"] == {"connection": "team/dead", "reason": "Unreachable"}
        assert (await client.call("good_bump")).text == "1"
        assert (await client.call("good_nope")).error == {"code": -32602, "message": "Unknown tool: good_nope"}


async def test_a_call_to_a_backend_that_died_is_named_with_the_cause_and_recovers(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    assert (await client.call("one_bump")).text == "1"
    await backend.stop()
    error = (await client.call("one_bump")).error
    assert error["data"]["connection"] == "team/one"
    assert error["data"]["reason"] == "Unreachable"
    await proxy.until(lambda: not proxy.report("one").ready)
    assert proxy.report("one").reason == "Unreachable"
    assert await client.names() == ["one_echo", "one_bump"], "the last catalogue is kept for a while"

    await backend.start()
    await proxy.until_ready("one")
    assert "onnect" in str(proxy.report("one").last_error), "kept after recovery"
    assert (await client.call("one_bump")).text == "2"


async def test_a_backend_that_comes_up_later_is_served_without_a_reload(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await backend.stop()
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    assert await client.names() == []
    await backend.start()
    await client.hear("notifications/tools/list_changed")
    assert await client.names() == ["one_echo", "one_bump"]
    assert (await client.call("one_bump")).text == "1"


async def test_a_call_cuts_the_wait_for_the_next_attempt_short(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr("random.uniform", lambda low, high: 1000.0 * high)  # pauses without end
    await backend.stop()
    await proxy.apply(http("one", backend.url))
    await proxy.until(lambda: proxy.report("one").attempted)
    await backend.start()
    client = await proxy.client()
    assert (await client.call("one_bump")).error["data"]["reason"] == "Unreachable"
    await proxy.until_ready("one")
    assert (await client.call("one_bump")).text == "1"


async def test_after_the_removal_grace_the_catalogue_is_withdrawn_and_clients_are_told(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url, catalog=CatalogPolicy(removal_grace=0.3)))
    await proxy.announced()
    client = await proxy.client(listening=True)
    await client.call("one_bump")
    await backend.stop()
    assert "error" in (await client.call("one_bump")).response
    await client.hear("notifications/tools/list_changed")
    assert await client.names() == []
    assert proxy.report("one").catalog.tools == 0
    error = (await client.call("one_bump")).error
    assert error["data"]["connection"] == "team/one", "a withdrawn tool is unavailable, not unknown"
    await backend.start()
    await client.hear("notifications/tools/list_changed", 2)
    assert await client.names() == ["one_echo", "one_bump"]


async def test_a_backend_back_within_the_grace_is_never_withdrawn(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    client = await proxy.client(listening=True)
    await client.call("one_bump")
    await backend.stop()
    await client.call("one_bump")
    await proxy.until(lambda: not proxy.report("one").ready)
    await backend.start()
    await proxy.until_ready("one")
    await proxy.announced()
    assert await client.names() == ["one_echo", "one_bump"]
    assert client.heard_of("notifications/tools/list_changed") == []


async def test_k8s_02_one_lost_answer_to_a_ping_is_no_outage(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "HEALTH_INTERVAL", 0.05)
    monkeypatch.setattr(control, "PING_SECONDS", 0.3)
    swallowed: list[Seen] = []

    async def swallow_one_ping(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "ping" and not swallowed:
            swallowed.append(seen)
            await hang(seen)
        return None

    backend.intercept = swallow_one_ping
    await proxy.apply(http("one", backend.url))
    await backend.until(lambda: len(backend.seen("ping")) >= 4)
    assert swallowed
    assert proxy.report("one").ready
    assert len(backend.seen("initialize")) == 1


async def test_k8s_02_a_backend_that_stops_answering_is_found_by_its_pings(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "HEALTH_INTERVAL", 0.05)
    monkeypatch.setattr(control, "PING_SECONDS", 0.1)
    await proxy.apply(http("one", backend.url))
    backend.intercept = hang
    await proxy.until(lambda: not proxy.report("one").ready)
    assert proxy.report("one").reason == "Timeout"
    backend.intercept = None
    await proxy.until_ready("one")


async def test_a_refused_credential_is_reported_and_not_hammered(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "FIRST_PAUSE", 0.01)

    async def refuse(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(401, b"", {"www-authenticate": "Bearer"})

    backend.intercept = refuse
    await proxy.apply(http("one", backend.url, headers={"Authorization": "Bearer wrong"}))
    assert proxy.report("one").reason == "Unauthorized"
    assert "HTTP 401" in proxy.report("one").message
    assert "wrong" not in proxy.report("one").message
    await asyncio.sleep(0.5)
    assert len(backend.requests) <= 10, "each pause is twice as long as the one before"


async def test_a_timeout_of_one_backend_leaves_another_its_speed(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    slow = await make_backend()
    gate = slow.gated_tool("slow")
    await proxy.apply(http("slow", slow.url, timeouts=Timeouts(request=0.3)), http("good", backend.url))
    client = await proxy.client()
    calling = asyncio.create_task(client.call("slow_slow"))
    await gate.arrived()
    assert (await client.call("good_bump")).text == "1"
    assert not calling.done()
    assert (await calling).error["data"] == {"connection": "team/slow", "reason": "Timeout"}


async def test_health_asks_all_backends_at_the_same_time(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    second, dead = await make_backend(), await make_backend()
    await dead.stop()
    together = asyncio.Barrier(2)

    async def meet(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "ping":
            async with asyncio.timeout(10):
                await together.wait()
        return None

    backend.intercept = second.intercept = meet
    await proxy.apply(http("one", backend.url), http("two", second.url), http("dead", dead.url))
    reports = {each.connection: each for each in await proxy.process.check_health()}
    assert reports[key("one")].healthy
    assert reports[key("two")].healthy
    assert not reports[key("dead")].healthy
    assert "cannot connect" in reports[key("dead")].message


async def test_the_process_can_be_used_before_anything_is_applied() -> None:
    async with running_proxy() as proxy:
        assert isinstance(proxy.process, ProxyProcess)
        client: Any = await proxy.client()
        assert await client.names() == []
        with pytest.raises(aiohttp.ClientError):
            await proxy.http.get("http://127.0.0.1:9/", timeout=aiohttp.ClientTimeout(1))
