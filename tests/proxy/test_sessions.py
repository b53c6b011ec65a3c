"""Sessions on both sides: whose they are, when they are opened, how they are lost and how they end."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mcp_connections.mounts.spec import ClientLimits, DesiredMounts
from mcp_connections.proxy.downstream import client_session
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually


async def bump(client: Client) -> int:
    return int((await client.call("one_bump")).text)


# upstream


async def test_isolated_each_client_counts_for_itself(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    a, b = await proxy.client(name="client-a"), await proxy.client(name="client-b")
    assert [await bump(a), await bump(a), await bump(a), await bump(b)] == [1, 2, 3, 1]
    names = {session.hello["clientInfo"]["name"] for session in backend.client_sessions}
    assert names == {"client-a", "client-b"}, "a backend is told whom it works for"
    assert all(session.initialized for session in backend.live)


async def test_shared_all_clients_count_together(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, session="Shared"))
    a, b = await proxy.client(), await proxy.client()
    assert [await bump(a), await bump(a), await bump(b), await bump(a)] == [1, 2, 3, 4]
    assert len(backend.client_sessions) == 1
    assert backend.client_sessions[0].hello["capabilities"] == {}, "no client may be asked in another's name"
    await a.delete()
    assert await bump(b) == 5


async def test_no_session_is_opened_before_it_is_needed(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await proxy.apply(http("one", backend.url), http("other", other.url))
    client = await proxy.client(listening=True)
    await client.names()
    await client.request("ping")
    assert len(backend.live) == 1
    await bump(client)
    assert len(backend.live) == 2
    assert len(other.live) == 1


async def test_concurrent_first_calls_open_one_session(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    counts = await asyncio.gather(*(bump(client) for _ in range(20)))
    assert sorted(counts) == list(range(1, 21))
    assert len(backend.client_sessions) == 1
    assert len(backend.seen("initialize")) == 2


async def test_cancelling_the_first_of_two_that_wait_for_a_session_leaves_the_second_one_its_answer(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    held = asyncio.Event()

    async def hold(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "initialize":
            await held.wait()
        return None

    backend.intercept = hold
    first = asyncio.create_task(client.request("tools/call", {"name": "one_bump"}, request_id="first"))
    await backend.until(lambda: len(backend.seen("initialize")) == 2)
    second = asyncio.create_task(bump(client))
    await eventually(lambda: proxy.report("one").in_flight == 2)
    await client.notify("notifications/cancelled", {"requestId": "first"})
    await eventually(lambda: proxy.report("one").in_flight == 1)
    held.set()
    assert await second == 1
    assert not (await first).messages, "a cancelled request gets no response"
    assert len(backend.seen("initialize")) == 2
    assert len(backend.calls_of("bump")) == 1


async def test_a_lost_session_is_opened_again_and_the_call_runs_once(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert await bump(client) == 1
    backend.lose_sessions()
    backend.requests.clear()
    assert await bump(client) == 1
    calls = backend.calls_of("bump")
    assert len(calls) == 2, "sent once in the lost session, which was refused, and once in the new one"
    assert calls[0].session != calls[1].session
    assert sum(session.counter for session in backend.live) == 1
    handshake = next(seen for seen in backend.seen("initialize") if seen.message["params"]["capabilities"] == {})
    assert "mcp-session-id" not in handshake.headers
    backend.lose_sessions()
    assert (await client.request("resources/read", {"uri": "doc://one/a"})).result["contents"][0]["text"]


async def test_calls_in_flight_at_once_share_the_new_session_after_a_loss(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    await bump(client)
    backend.lose_sessions()
    counts = await asyncio.gather(*(bump(client) for _ in range(10)))
    assert sorted(counts) == list(range(1, 11))
    assert len([session for session in backend.live if session.counter]) == 1


async def test_a_backend_that_loses_every_session_is_not_tried_for_ever(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()

    async def forgetful(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(404) if seen.rpc == "tools/call" else None

    backend.intercept = forgetful
    error = (await client.call("one_bump")).error
    assert error["data"]["connection"] == "team/one"
    assert "HTTP 404" in error["message"]
    assert len(backend.calls_of("bump")) == 2


async def test_a_backend_without_sessions_is_never_sent_an_id(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.stateless = True
    backend.refuses_get = 405
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    assert await bump(client) == 1
    await client.delete()
    await eventually(lambda: proxy.report("one").sessions == 1)
    assert not any("mcp-session-id" in seen.headers for seen in backend.requests)
    assert not [seen for seen in backend.requests if seen.method == "DELETE"], "there is no session to delete"
    assert proxy.report("one").ready


async def test_deleting_the_session_ends_the_sessions_with_all_backends(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url), http("other", other.url))
    client = await proxy.client(listening=True)
    stays = await proxy.client()
    assert await bump(client) == 1
    assert await bump(stays) == 1
    await client.call("other_bump")
    calling = asyncio.create_task(client.call("one_slow"))
    call = await gate.arrived()

    async with proxy.http.delete(proxy.url, headers=client.headers()) as response:
        assert response.status == 200
    assert not (await calling).messages
    await client.until_stream_ends()
    await backend.until(lambda: len(backend.live) == 2)
    await other.until(lambda: len(other.live) == 1)
    assert call.cancelled.is_set(), "the backend was told that the call is of no use any more"
    assert (await client.request("ping")).status == 404
    assert await bump(stays) == 2
    assert len(proxy.process.sessions) == 1


async def test_the_log_level_and_subscriptions_are_restored_in_a_new_session(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    await client.request("resources/subscribe", {"uri": "doc://one/a"})
    await client.request("logging/setLevel", {"level": "warning"})
    (before,) = backend.client_sessions
    assert (before.subscriptions, before.log_level) == ({"doc://a"}, "warning")
    backend.lose_sessions()
    await bump(client)
    await backend.until(lambda: any(session.counter for session in backend.live))
    (after,) = [session for session in backend.live if session.counter]
    assert (after.subscriptions, after.log_level) == ({"doc://a"}, "warning")
    await backend.until(lambda: after.listening)
    after.notify("notifications/resources/updated", {"uri": "doc://a"})
    assert (await client.hear("notifications/resources/updated"))["params"] == {"uri": "doc://one/a"}


# downstream


async def test_an_unknown_session_is_404_and_a_missing_one_400(proxy: RunningProxy) -> None:
    client = await proxy.client()
    client.session_id = "nobody-has-this-id"
    answer = await client.request("tools/list")
    assert answer.status == 404
    assert answer.error["message"].startswith("Session not found")
    client.session_id = None
    answer = await client.request("tools/list")
    assert answer.status == 400
    assert "Mcp-Session-Id" in answer.error["message"]
    async with proxy.http.delete(proxy.url) as response:
        assert response.status == 400


async def test_session_ids_are_not_to_be_guessed(proxy: RunningProxy) -> None:
    ids = [(await proxy.client()).session_id or "" for _ in range(50)]
    assert len(set(ids)) == 50
    for each in ids:
        assert len(each) >= 32
        assert each.isascii()
        assert each.isprintable()
    assert max(Counter(each[:4] for each in ids).values()) < 5


async def test_beyond_the_session_limit_clients_are_asked_to_come_back(proxy: RunningProxy) -> None:
    await proxy.registry.apply(DesiredMounts(client_limits=ClientLimits(sessions=2)))
    first = await proxy.client()
    await proxy.client()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "third", "version": "1"}}
    answer = await proxy.new_client().request("initialize", params)
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "try again later" in answer.error["message"]
    await first.delete()
    await proxy.client()


async def test_idle_sessions_are_closed_with_their_backends_others_are_not(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = backend.gated_tool("slow")
    monkeypatch.setattr(client_session, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(client_session, "SWEEP_SECONDS", 0.1)
    await proxy.apply(http("one", backend.url))
    idle, listening, calling = await proxy.client(), await proxy.client(listening=True), await proxy.client()
    await bump(idle)
    await bump(listening)
    call = asyncio.create_task(calling.call("one_slow"))
    await gate.arrived()
    await eventually(lambda: len(proxy.process.sessions) == 2)
    assert (await idle.request("ping")).status == 404
    await backend.until(lambda: len(backend.client_sessions) == 2)
    assert await bump(listening) == 2
    gate.open()
    assert (await call).text.startswith("passed")
    await listening.unlisten()
    await eventually(lambda: len(proxy.process.sessions) == 0)
    await backend.until(lambda: len(backend.live) == 1)


async def test_a_client_that_initializes_twice_gets_two_sessions(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    first = client.session_id
    await bump(client)
    await client.initialize()
    assert client.session_id != first
    assert await bump(client) == 1


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_each_known_protocol_version_is_agreed_on(
    proxy: RunningProxy, backend: ScriptedBackend, version: str
) -> None:
    backend.versions = ("2025-06-18",)
    await proxy.apply(http("one", backend.url))
    client = proxy.new_client()
    assert (await client.initialize(version=version)).result["protocolVersion"] == version
    assert await bump(client) == 1
    versions = {seen.headers.get("mcp-protocol-version") for seen in backend.requests if seen.rpc != "initialize"}
    assert versions == {"2025-06-18"}, "each leg has a version of its own"
    assert {seen.headers.get("mcp-protocol-version") for seen in backend.seen("initialize")} == {None}


async def test_an_unknown_protocol_version_is_answered_with_the_newest_handshake_version(proxy: RunningProxy) -> None:
    client = proxy.new_client()
    assert (await client.initialize(version="1999-12-31")).result["protocolVersion"] == "2025-11-25"


async def test_a_backend_that_wants_an_unknown_version_is_left_alone(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    good = await make_backend()
    backend.versions = ("2031-01-01",)
    await proxy.apply(http("odd", backend.url), http("good", good.url))
    report = proxy.report("odd")
    assert (report.reason, report.phase) == ("ProtocolError", "Initialize")
    assert "2031-01-01" in report.message
    client = await proxy.client()
    assert await client.names() == ["good_echo", "good_bump"]
    assert not any(session.initialized for session in backend.sessions.values())


async def test_instructions_name_whose_they_are(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    silent, other = await make_backend(), await make_backend()
    backend.instructions = "Use bump to count."
    other.instructions = "Be kind."
    await proxy.apply(http("one", backend.url), http("silent", silent.url), http("other", other.url))
    result = (await proxy.new_client().initialize()).result
    assert result["instructions"] == "[one] Use bump to count.\n\n[other] Be kind."
    assert result["serverInfo"]["name"] == "mcp-connections"


async def test_no_header_of_a_client_reaches_a_backend(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, headers={"authorization": "Bearer configured"}))
    client = await proxy.client()
    answer = await client.request(
        "tools/call",
        {"name": "one_bump"},
        authorization="Bearer of-the-client",
        cookie="id=1",
        x_forwarded_for="10.0.0.1",
        x_custom="private",
    )
    assert answer.text == "1"
    (call,) = backend.calls_of("bump")
    assert call.headers["authorization"] == "Bearer configured"
    assert not {"cookie", "x-forwarded-for", "x-custom", "origin", "referer"} & set(call.headers)
    assert call.headers["mcp-session-id"] != client.session_id


async def test_requests_that_share_an_id_are_all_cancelled(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    """No conforming client does that; none of its calls may run on without anybody who could end it."""
    first, second = backend.gated_tool("first"), backend.gated_tool("second")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    calls = [
        asyncio.create_task(client.request("tools/call", {"name": f"one_{name}"}, request_id=7))
        for name in ("first", "second")
    ]
    await first.arrived()
    await second.arrived()
    await client.notify("notifications/cancelled", {"requestId": 7})
    async with asyncio.timeout(20):
        await asyncio.wait(calls)
    assert [call.result().messages for call in calls] == [[], []]
