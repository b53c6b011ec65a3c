"""Reloads: what is unchanged stays the same object with its sessions and calls, what is not is replaced or retired."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.mounts.fingerprint import fingerprint
from mcp_connections.mounts.spec import HttpServer, MountSpec, Rejection
from tests.backends.calls import Call
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import desired, http, key
from tests.proxy.running import RunningProxy


async def test_an_unchanged_connection_keeps_its_mount_object_and_its_sessions(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    before, since = proxy.mount("one"), proxy.report("one").since
    handshakes = len(backend.seen("initialize"))

    result = await proxy.apply(http("one", backend.url), http("other", other.url))

    assert proxy.mount("one") is before
    assert result.kept == (key("one"),)
    assert result.added == (key("other"),)
    assert (await client.call("one_bump")).text == "2"
    assert proxy.report("one").since == since
    assert len(backend.seen("initialize")) == handshakes
    assert not [seen for seen in backend.requests if seen.method == "DELETE"]


async def test_a_call_in_flight_goes_through_ten_unrelated_reloads_in_its_session(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    calling = asyncio.create_task(client.call("one_slow"))
    call = await gate.arrived()
    before = proxy.mount("one")
    for number in range(10):
        others = [http("other", other.url, fingerprint=str(number))] if number % 3 else []
        result = await proxy.apply(*others, http("one", backend.url))
        assert key("one") in result.kept
        assert proxy.report("one").in_flight == 1
    gate.open()

    assert (await calling).text == f"passed in {call.session.id}"
    assert proxy.mount("one") is before
    assert len(gate.calls) == 1
    assert not call.cancelled.is_set()
    assert not call.disconnected.is_set()
    assert backend.client_sessions == [call.session]


def resource(**spec: Any) -> McpConnection:
    metadata = {"namespace": "team", "name": "one", "uid": "uid-one"}
    transport = {"http": {"url": spec.pop("url")}}
    return McpConnection.model_validate({"metadata": metadata, "spec": {"transport": transport, **spec}})


def mounted_as(connection: McpConnection, url: str) -> MountSpec:
    return http("one", url, fingerprint=fingerprint(connection, "one", {}))


async def test_changed_metadata_makes_a_new_mount(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(mounted_as(resource(url=backend.url, metadata={"team": "a"}), backend.url))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    before = proxy.mount("one")

    unchanged = await proxy.apply(mounted_as(resource(metadata={"team": "a"}, url=backend.url), backend.url))
    assert unchanged.kept == (key("one"),)
    changed = await proxy.apply(mounted_as(resource(url=backend.url, metadata={"team": "b"}), backend.url))

    assert proxy.mount("one") is not before
    assert changed.replaced == (key("one"),)
    assert [(each.connection, each.reason) for each in changed.retired] == [(key("one"), "Changed")]
    assert changed.retired[0].fingerprint == before.spec.fingerprint
    assert (await client.call("one_bump")).text == "1", "a new mount has new sessions"


async def test_a_disabled_connection_is_not_mounted_again_and_is_reported(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await proxy.apply(http("one", backend.url), http("other", other.url))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    before = proxy.mount("one")

    result = await proxy.apply(http("other", other.url), disabled=(key("one"),))

    assert [(each.connection, each.reason) for each in result.retired] == [(key("one"), "Disabled")]
    assert proxy.registry.find(key("one")) is None
    assert await client.names() == ["other_echo", "other_bump"]
    error = (await client.call("one_bump")).error
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: one_bump")
    async with asyncio.timeout(20):
        await before.closed.wait()
    (retired,) = proxy.registry.report().retired
    assert (retired.connection, retired.reason, retired.state) == (key("one"), "Disabled", "Closed")

    backend.requests.clear()
    again = await proxy.apply(http("other", other.url), disabled=(key("one"),))
    assert again.retired == ()
    assert backend.requests == [], "a disabled connection is left alone"


async def test_a_removed_connection_is_retired_as_removed(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    before = proxy.mount("one")
    result = await proxy.apply()
    assert [(each.connection, each.reason) for each in result.retired] == [(key("one"), "Removed")]
    async with asyncio.timeout(20):
        await before.closed.wait()
    assert backend.live == []


async def test_a_connection_that_is_no_longer_accepted_is_retired_and_reported_as_rejected(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    rejection = Rejection(connection=key("one"), reason="PrefixConflict", message="prefix one belongs to team/older")
    result = await proxy.apply(rejected=(rejection,))
    assert [(each.connection, each.reason) for each in result.retired] == [(key("one"), "Changed")]
    assert result.rejected == (rejection,)
    assert proxy.registry.report().rejected == (rejection,)


async def test_a_connection_created_again_under_its_old_name_gets_a_new_mount(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    spec = http("one", backend.url)
    await proxy.apply(spec)
    before = proxy.mount("one")
    result = await proxy.apply(spec.model_copy(update={"connection": key("one").model_copy(update={"uid": "other"})}))
    assert proxy.mount("one") is not before
    assert [(each.connection.uid, each.reason) for each in result.retired] == [("uid-one", "Removed")]


async def test_the_replaced_mount_serves_until_the_new_one_was_tried(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = await make_backend()
    new.tool("newer")
    held = asyncio.Event()
    new.intercept = _hold("initialize", held)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    old = proxy.mount("one")

    reload = asyncio.create_task(proxy.apply(http("one", new.url, fingerprint="2")))
    await new.until(lambda: new.seen("initialize"))
    assert proxy.mount("one") is old
    assert await client.names() == ["one_echo", "one_bump"]
    assert (await client.call("one_bump")).text == "1"
    assert backend.client_sessions, "the call went to the old mount"
    held.set()

    result = await reload
    assert result.replaced == (key("one"),)
    assert result.skipped == ()
    assert await client.names() == ["one_echo", "one_bump", "one_newer"]


async def test_a_new_mount_that_does_not_come_up_does_not_hold_the_reload_up(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    hung, refusing = await make_backend(), await make_backend()
    hung.intercept = _hold("initialize", asyncio.Event())
    refusing.intercept = _answer(HttpAnswer(500, b"out of order"))
    await proxy.apply(http("good", backend.url))
    client = await proxy.client()
    async with asyncio.timeout(10):
        result = await proxy.apply(http("good", backend.url), http("hung", hung.url), http("refusing", refusing.url))
    assert set(result.added) == {key("hung"), key("refusing")}
    (skipped,) = result.skipped
    assert (skipped.connection, skipped.phase) == (key("refusing"), "Initialize")
    assert "HTTP 500" in skipped.error
    assert "out of order" in skipped.error
    assert (await client.call("good_bump")).text == "1"


async def test_a_new_separator_renames_without_reconnecting(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.prompt("greet", _echo_prompt)
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    assert (await client.call("one_bump")).text == "1"
    await proxy.announced()
    client.heard.clear()
    before, handshakes = proxy.mount("one"), len(backend.seen("initialize"))

    result = await proxy.apply(http("one", backend.url), separator=".")

    assert result.kept == (key("one"),)
    assert proxy.mount("one") is before
    assert await client.names() == ["one.echo", "one.bump"]
    assert await client.names("prompts/list") == ["one.greet"]
    assert (await client.call("one.bump")).text == "2"
    assert (await client.call("one_bump")).error["code"] == -32602
    assert len(backend.seen("initialize")) == handshakes
    assert proxy.registry.report().separator == "."
    await client.hear("notifications/tools/list_changed")
    await client.hear("notifications/prompts/list_changed")
    await proxy.announced()
    assert len(client.heard) == 2, "resources keep their URIs, so their list did not change"


async def test_concurrent_reloads_run_one_after_the_other_and_the_last_one_wins(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    applies = [
        proxy.apply(
            http("one", f"{backend.url}?reload={number}", fingerprint=str(number)),
            http(f"extra{number}", f"{backend.url}?reload={number}"),
        )
        for number in range(5)
    ]
    results = await asyncio.gather(*applies)
    assert [each.spec.connection.name for each in proxy.registry.mounts] == ["one", "extra4"]
    assert proxy.mount("one").spec.fingerprint == "4"
    tried = [seen.query for seen in backend.seen("initialize")]
    assert tried == sorted(tried), "the mounts of a reload were tried before the reload ahead of it was done"
    assert results[0].added == (key("one"), key("extra0"))
    for number, result in enumerate(results[1:], start=1):
        assert result.replaced == (key("one"),)
        assert {each.connection for each in result.retired} == {key("one"), key(f"extra{number - 1}")}


async def test_a_reload_that_is_cancelled_leaves_nothing_behind(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    slow = await make_backend()
    slow.intercept = _hold("tools/list", asyncio.Event())
    await proxy.apply(http("one", backend.url))
    before = proxy.mount("one")
    reload = asyncio.create_task(proxy.apply(http("one", backend.url), http("slow", slow.url)))
    await slow.until(lambda: slow.seen("tools/list"))
    reload.cancel()
    await asyncio.wait({reload})

    assert proxy.registry.mounts == (before,)
    await slow.until(lambda: not slow.live)
    result = await proxy.apply(http("one", backend.url))
    assert result.kept == (key("one"),)
    assert result.retired == ()


async def test_mounts_are_kept_in_the_order_of_age(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("b", backend.url), http("c", backend.url))
    await proxy.apply(http("a", backend.url), http("b", backend.url), http("c", backend.url))
    client = await proxy.client()
    assert await client.names() == ["a_echo", "a_bump", "b_echo", "b_bump", "c_echo", "c_bump"]


async def test_the_whole_configuration_of_a_connection_reaches_its_backend(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    server = HttpServer(url=f"{backend.url}?tenant=7", headers={"Authorization": "Bearer hunter2", "X-Team": "blue"})
    await proxy.apply(http("one", backend.url).model_copy(update={"server": server}))
    client = await proxy.client()
    await client.call("one_echo")
    for seen in backend.requests:
        assert seen.headers["authorization"] == "Bearer hunter2"
        assert seen.headers["x-team"] == "blue"
        assert seen.headers["host"] == f"127.0.0.1:{backend.server.port}"
        assert (seen.path, seen.query) == ("/mcp", "tenant=7")
    report = proxy.registry.report().model_dump_json() + str(desired(proxy.mount("one").spec))
    assert "hunter2" not in report


async def _echo_prompt(call: Call) -> Any:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(call.params)}}]}


def _hold(rpc: str, released: asyncio.Event) -> Any:
    """Let requests of one method wait."""

    async def intercept(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == rpc:
            await released.wait()
        return None

    return intercept


def _answer(answer: HttpAnswer) -> Any:
    async def intercept(seen: Seen) -> HttpAnswer | None:
        return answer

    return intercept
