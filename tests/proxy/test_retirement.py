"""Retired mounts: calls in flight go on, and nothing says Closed before everything of the mount is gone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from mcp_connections.mounts.report import RetiredMount
from mcp_connections.proxy.channels import child_process
from mcp_connections.proxy.registry.mount import Mount
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.desired import http, key, stdio
from tests.proxy.running import RunningProxy, eventually

CHILD = str(Path(__file__).parent.parent / "backends" / "stdio_child.py")


def retired(proxy: RunningProxy) -> RetiredMount:
    """The youngest retired mount, as the registry reports it."""
    return proxy.registry.report().retired[-1]


async def closed(mount: Mount) -> None:
    async with asyncio.timeout(20):
        await mount.closed.wait()


async def test_a_call_in_flight_ends_in_the_retired_mount(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url))
    client, other = await proxy.client(), await proxy.client()
    old = proxy.mount("one")
    calling = asyncio.create_task(client.call("one_slow"))
    call = await gate.arrived()

    result = await proxy.apply(http("one", backend.url, fingerprint="2"))

    (report,) = result.retired
    assert (report.in_flight, report.state) == (1, "Draining")
    assert (await client.call("one_bump")).text == "1", "new calls go to the new mount"
    assert (await other.call("one_bump")).text == "1"
    assert retired(proxy).in_flight == 1
    assert retired(proxy).state == "Draining"
    assert call.session.alive, "the session of the call was ended while it runs"
    gate.open()
    assert (await calling).text == f"passed in {call.session.id}"
    await closed(old)
    assert (retired(proxy).in_flight, retired(proxy).state) == (0, "Closed")
    assert not call.session.alive


async def test_a_mount_is_not_closed_before_its_backend_has_answered_delete(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    answered = asyncio.Event()

    async def hold_delete(seen: Seen) -> HttpAnswer | None:
        if seen.method == "DELETE":
            await answered.wait()
        return None

    backend.intercept = hold_delete
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    await client.call("one_bump")
    old = proxy.mount("one")
    await proxy.apply()
    deletes = [seen for seen in backend.requests if seen.method == "DELETE"]
    await backend.until(lambda: len([seen for seen in backend.requests if seen.method == "DELETE"]) == 2)
    assert len(deletes) <= 2
    assert retired(proxy).state == "Draining"
    assert not old.closed.is_set()
    answered.set()
    await closed(old)
    assert retired(proxy).state == "Closed"
    assert backend.live == []


async def test_a_mount_is_not_closed_before_its_process_group_is_gone(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "EOF_SECONDS", 0.2)
    await proxy.apply(stdio("one", sys.executable, "-IS", CHILD, "--stubborn", "--grandchild"))
    await proxy.until_ready("one")
    client = await proxy.client()
    pids = json.loads((await client.call("one_whoami")).text)["pids"]
    assert len(pids) == 2
    assert all(map(is_alive, pids))
    old = proxy.mount("one")
    await proxy.apply()
    seen_draining_alive = False
    while retired(proxy).state == "Draining":
        seen_draining_alive |= any(map(is_alive, pids))
        await asyncio.sleep(0.01)
    assert seen_draining_alive
    assert not any(map(is_alive, pids)), "said Closed while processes were left"
    assert old.closed.is_set()


def is_alive(pid: int) -> bool:
    """Whether the process runs, or has ended without being reaped by us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_the_drain_timeout_cancels_the_call_and_says_so(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.channels.http_client.IDLE_SECONDS", 0.0)  # each request connects anew
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    calling = asyncio.create_task(client.call("one_slow"))
    call = await gate.arrived()
    old = proxy.mount("one")

    await proxy.apply(disabled=(key("one"),), drain_timeout=0.2)

    error = (await calling).error
    assert error["code"] == -32603
    assert error["data"] == {"connection": "team/one", "reason": "Draining"}
    for fact in ("team/one", "Disabled", "drain timeout of 0.2 s", "cancelled"):
        assert fact in error["message"]
    await closed(old)
    assert call.cancelled.is_set(), "the backend was not told that the call is cancelled"
    assert not call.session.alive
    assert retired(proxy).state == "Closed"


async def test_the_retired_list_holds_the_last_twenty(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    for number in range(24):
        await proxy.apply(http("one", backend.url, fingerprint=str(number)))
    report = proxy.registry.report()
    assert [each.fingerprint for each in report.retired] == [str(number) for number in range(3, 23)]
    await eventually(lambda: all(each.state == "Closed" for each in proxy.registry.report().retired))
    assert len(backend.live) == 1


async def test_a_proxy_that_ends_closes_its_sessions(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    clients = [await proxy.client() for _ in range(3)]
    for client in clients:
        await client.call("one_bump")
    assert len(backend.live) == 4
    async with asyncio.timeout(20):
        await proxy.registry.aclose()
    assert backend.live == []
    assert proxy.registry.report().mounts == ()


async def test_a_backend_that_refuses_delete_is_closed_all_the_same(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.delete_status = 405
    await proxy.apply(http("one", backend.url))
    old = proxy.mount("one")
    await proxy.apply()
    await closed(old)
    assert len([seen for seen in backend.requests if seen.method == "DELETE"]) == 1


async def test_a_backend_that_never_answers_delete_does_not_keep_a_mount_open_for_ever(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.channels.http.CLOSE_SECONDS", 0.2)

    async def hang_delete(seen: Seen) -> HttpAnswer | None:
        if seen.method == "DELETE":
            await asyncio.Event().wait()
        return None

    backend.intercept = hang_delete
    await proxy.apply(http("one", backend.url))
    old = proxy.mount("one")
    await proxy.apply()
    await closed(old)
    await eventually(lambda: backend.server.connections == 0)
