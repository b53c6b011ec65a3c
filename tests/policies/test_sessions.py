"""session.idleTimeout and session.maxSessions in front of a real backend: which sessions it had, and for how long."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from mcp_connections.mounts.spec import SessionLimits
from tests.backends.calls import Session
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.desired import http, stdio
from tests.proxy.running import RunningProxy, eventually

CHILD = str(Path(__file__).parents[1] / "backends" / "stdio_child.py")


def idle(seconds: float) -> SessionLimits:
    return SessionLimits(idle_timeout=seconds)


async def ended(session: Session) -> None:
    """Wait until the backend was told that a session is over."""
    await eventually(lambda: not session.alive)


# idleTimeout


async def test_an_unused_session_is_ended_and_another_opened_on_next_use(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url, session_limits=idle(0.3)))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    (first,) = backend.client_sessions
    assert proxy.report("one").sessions == 2
    await ended(first)
    assert [seen.session for seen in backend.requests if seen.method == "DELETE"] == [first.id]
    await eventually(lambda: proxy.report("one").sessions == 1)
    assert (await client.call("one_bump")).text == "1", "the state went with the session"
    (second,) = backend.client_sessions
    await ended(second)
    assert proxy.report("one").ready, "the proxy's own session stays"


async def test_a_session_in_use_is_kept(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url, session_limits=idle(0.2)))
    client, other = await proxy.client(), await proxy.client()
    call = asyncio.create_task(client.call("one_slow"))
    busy = (await gate.arrived()).session
    await other.call("one_bump")
    (unused,) = (session for session in backend.client_sessions if session is not busy)
    await ended(unused)
    assert busy.alive, "it is older, and unused but for the call under way"
    gate.open()
    assert (await call).text == f"passed in {busy.id}"
    await ended(busy)


async def test_each_use_begins_the_time_anew(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session_limits=idle(1.5)))
    client = await proxy.client()
    started = asyncio.get_running_loop().time()
    latest = started
    for expected in range(1, 6):
        text = (await client.call("one_bump")).text
        now = asyncio.get_running_loop().time()
        if now - latest > 1.4:  # the machine was too busy for this to tell anything
            return
        latest = now
        assert text == str(expected)
        await asyncio.sleep(0.5)
    assert latest - started > 1.5


async def test_a_session_with_subscriptions_is_in_use(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url, session_limits=idle(0.2)))
    client, other = await proxy.client(listening=True), await proxy.client()
    (uri,) = await client.names("resources/list")
    await client.request("resources/subscribe", {"uri": uri})
    (subscribed,) = backend.client_sessions
    for _ in range(3):
        await other.call("one_bump")
        (unused,) = (session for session in backend.client_sessions if session is not subscribed)
        await ended(unused)
    assert subscribed.alive
    await backend.until(lambda: subscribed.listening)
    subscribed.notify("notifications/resources/updated", {"uri": "doc://a"})
    await client.hear("notifications/resources/updated")
    await client.request("resources/unsubscribe", {"uri": uri})
    await ended(subscribed)


async def test_a_session_that_was_opened_anew_has_the_log_level(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session_limits=idle(0.2)))
    client = await proxy.client()
    await client.call("one_bump")
    (first,) = backend.client_sessions
    await client.request("logging/setLevel", {"level": "warning"})
    await ended(first)
    await client.call("one_bump")
    (second,) = backend.client_sessions
    assert second.log_level == "warning"


async def test_the_shared_session_ends_when_nobody_uses_it(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session="Shared", session_limits=idle(0.2)))
    clients = [await proxy.client() for _ in range(3)]
    await asyncio.gather(*(client.call("one_bump") for client in clients))
    (shared,) = backend.client_sessions
    await ended(shared)
    assert (await clients[0].call("one_bump")).text == "1"


async def test_an_idle_process_is_stopped(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", sys.executable, "-IS", CHILD, session_limits=idle(0.3)))
    client = await proxy.client()
    (first,) = json.loads((await client.call("one_whoami")).text)["pids"]
    await eventually(lambda: not Path(f"/proc/{first}").exists())
    answer = json.loads((await client.call("one_whoami")).text)
    assert answer["calls"] == 1
    assert answer["pids"] != [first]


async def test_a_retired_mount_leaves_no_timer_behind(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session_limits=idle(0.3)))
    client = await proxy.client()
    await client.call("one_bump")
    mount = proxy.mount("one")
    await proxy.apply()
    async with asyncio.timeout(20):
        await mount.closed.wait()
    deletes = [seen for seen in backend.requests if seen.method == "DELETE"]
    await asyncio.sleep(0.6)
    assert [seen for seen in backend.requests if seen.method == "DELETE"] == deletes


# maxSessions


async def test_no_more_sessions_than_there_may_be(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session_limits=SessionLimits(max_sessions=2)))
    clients = [await proxy.client() for _ in range(5)]
    answers = await asyncio.gather(*(client.call("one_bump") for client in clients))
    served = [client for client, answer in zip(clients, answers, strict=True) if "result" in answer.response]
    assert len(served) == 2
    for answer in answers:
        if "error" in answer.response:
            assert answer.error["data"] == {"connection": "team/one", "reason": "SessionLimited"}
            assert "session.maxSessions allows clients 2 at once" in answer.error["message"]
    assert len(backend.client_sessions) == 2
    report = proxy.report("one")
    assert (report.sessions, report.policy.refused.sessions) == (3, 3)
    assert report.ready, "the session that the proxy keeps for itself is not one of them"
    name = "mcp_connections_calls_refused_total"
    labels = {"connection": "team/one", "limit": "sessions"}
    assert proxy.process.metrics.registry.get_sample_value(name, labels) == 3

    for client in served:
        assert (await client.call("one_bump")).text == "2", "those that have one keep it"
    await served[0].delete()
    left_out = next(client for client in clients if client not in served)
    assert (await left_out.call("one_bump")).text == "1"


async def test_a_session_that_the_backend_lost_makes_room_for_its_successor(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url, session_limits=SessionLimits(max_sessions=1)))
    client = await proxy.client()
    for _ in range(3):
        assert (await client.call("one_bump")).text == "1"
        backend.lose_sessions()


async def test_a_process_that_died_makes_room_too(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", sys.executable, "-IS", CHILD, session_limits=SessionLimits(max_sessions=1)))
    client, other = await proxy.client(), await proxy.client()
    assert (await client.call("one_crash")).error["data"]["reason"] == "Exited"
    await eventually(lambda: proxy.report("one").ready)
    assert json.loads((await other.call("one_whoami")).text)["calls"] == 1
    assert (await client.call("one_whoami")).error["data"]["reason"] == "SessionLimited"


async def test_an_idle_session_makes_room(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    limits = SessionLimits(max_sessions=1, idle_timeout=0.2)
    await proxy.apply(http("one", backend.url, session_limits=limits))
    clients = [await proxy.client() for _ in range(3)]
    for client in clients:
        assert (await client.call("one_bump")).text == "1"
        (session,) = backend.client_sessions
        await ended(session)


async def test_openings_that_fail_use_up_no_sessions(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session_limits=SessionLimits(max_sessions=1)))
    client = await proxy.client()

    async def fail(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(500) if seen.rpc == "initialize" else None

    backend.intercept = fail
    for _ in range(3):
        assert (await client.call("one_bump")).error["data"]["reason"] == "Unreachable"
    backend.intercept = None
    assert (await client.call("one_bump")).text == "1"


async def test_the_shared_session_counts_once(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    limits = SessionLimits(max_sessions=1)
    await proxy.apply(http("one", backend.url, session="Shared", session_limits=limits))
    clients = [await proxy.client() for _ in range(5)]
    answers = await asyncio.gather(*(client.call("one_bump") for client in clients))
    assert sorted(answer.text for answer in answers) == ["1", "2", "3", "4", "5"]
