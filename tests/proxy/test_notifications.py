"""What backends tell clients besides answers: logs, resource updates, notifications nobody here knows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.backends.calls import Call, Session
from tests.backends.scripted import ScriptedBackend, text
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"


async def bumped(client: Client, backend: ScriptedBackend, *, shared: bool = False) -> Session:
    """Have the client use the backend; the session it does that in, listening if it is the client's own."""
    before = {session.id for session in backend.live}
    await client.call("one_bump")
    (session,) = [each for each in backend.live if each.id not in before]
    if client.listening and not shared:
        await backend.until(lambda: session.listening)
    return session


async def test_notifications_ahead_of_an_answer_come_on_its_stream_as_they_are(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    params = b'{"level":"info","logger":"l","data":{"n":9007199254740993,"x":1.0}}'

    async def handler(call: Call) -> Any:
        call.notify(MESSAGE, params)
        call.notify("notifications/vendor/thing", b'{"any":[1.0]}')
        return text("done")

    backend.tool("log", handler)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    answer = await client.call("one_log")
    assert [each["method"] for each in answer.notifications] == [MESSAGE, "notifications/vendor/thing"]
    assert bytes(msgspec.json.decode(answer.messages[0], type=dict[str, msgspec.Raw])["params"]) == params
    assert answer.text == "done"
    assert client.heard_of(MESSAGE) == []


async def test_notifications_of_the_get_stream_reach_their_client_only(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    clients = [await proxy.client(listening=True) for _ in range(2)]
    sessions = [await bumped(client, backend) for client in clients]
    for number, session in enumerate(sessions):
        session.notify(MESSAGE, {"level": "info", "data": number})
        session.notify("notifications/vendor/thing", {"number": number})
    for number, client in enumerate(clients):
        await client.hear("notifications/vendor/thing")
        assert [each["params"]["data"] for each in client.heard_of(MESSAGE)] == [number]


async def test_a_client_without_streams_gets_the_answer_alone(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def handler(call: Call) -> Any:
        call.notify(MESSAGE, {"level": "info", "data": 1})
        return text("done")

    backend.tool("log", handler)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    answer = await client.request("tools/call", {"name": "one_log"}, accept="application/json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == "done"


async def test_the_log_level_goes_to_every_backend_that_logs(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    silent = await make_backend()
    del silent.capabilities["logging"]
    await proxy.apply(http("one", backend.url), http("silent", silent.url))
    client = await proxy.client()
    other = await proxy.client()
    session = await bumped(client, backend)
    await client.call("silent_bump")
    other_session = await bumped(other, backend)
    assert (await client.request("logging/setLevel", {"level": "warning"})).result == {}
    assert session.log_level == "warning"
    assert other_session.log_level is None
    assert silent.seen("logging/setLevel") == []

    for level in ("loud", None, 3):
        error = (await client.request("logging/setLevel", {"level": level})).error
        assert error["code"] == -32602
    assert (await client.request("logging/setLevel")).error["code"] == -32602


async def test_the_log_level_is_set_in_sessions_that_open_later(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    await client.request("logging/setLevel", {"level": "debug"})
    assert (await bumped(client, backend)).log_level == "debug"


async def test_ntf_07_updates_come_under_the_public_uri_until_unsubscribed(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client, other = await proxy.client(listening=True), await proxy.client(listening=True)
    session = await bumped(client, backend)
    other_session = await bumped(other, backend)
    assert (await client.request("resources/subscribe", {"uri": "doc://one/a"})).result == {}
    assert session.subscriptions == {"doc://a"}
    session.notify(UPDATED, {"uri": "doc://a", "title": "A"})
    assert (await client.hear(UPDATED))["params"] == {"uri": "doc://one/a", "title": "A"}
    assert (await client.request("resources/read", {"uri": "doc://one/a"})).result["contents"]

    assert (await client.request("resources/unsubscribe", {"uri": "doc://one/a"})).result == {}
    assert session.subscriptions == set()
    session.notify(UPDATED, {"uri": "doc://a"})
    session.notify(MESSAGE, {"level": "info", "data": "behind it"})
    await client.hear(MESSAGE)
    assert len(client.heard_of(UPDATED)) == 1
    assert other.heard_of(UPDATED) == []

    await client.request("resources/subscribe", {"uri": "doc://one/a"})
    await client.delete()
    await backend.until(lambda: not session.alive)
    assert [other_session.alive, other_session.subscriptions] == [True, set()]


async def test_an_update_of_a_part_of_what_was_subscribed_to_is_passed_on(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    session = await bumped(client, backend)
    await client.request("resources/subscribe", {"uri": "file:///one/dir"})
    session.notify(UPDATED, {"uri": "file:///dir/file"})
    assert (await client.hear(UPDATED))["params"]["uri"] == "file:///one/dir/file"
    session.notify(UPDATED, {"uri": "file:///elsewhere"})
    session.notify(UPDATED, {"no": "uri"})
    session.notify(MESSAGE, {"level": "info", "data": "behind it"})
    await client.hear(MESSAGE)
    assert len(client.heard_of(UPDATED)) == 1


async def test_a_client_that_listens_after_it_subscribed_hears_of_updates(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    session = await bumped(client, backend)
    await client.request("resources/subscribe", {"uri": "doc://one/a"})
    await client.listen()
    await backend.until(lambda: session.listening)
    session.notify(UPDATED, {"uri": "doc://a"})
    await client.hear(UPDATED)


async def test_ntf_07_shared_subscriptions_last_until_their_last_client_leaves(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url, session="Shared"))
    clients = [await proxy.client(listening=True) for _ in range(3)]
    session = await bumped(clients[0], backend, shared=True)
    for client in clients[:2]:
        await client.request("resources/subscribe", {"uri": "doc://one/a"})
    await backend.until(lambda: session.listening)
    session.notify(UPDATED, {"uri": "doc://a"})
    for client in clients[:2]:
        await client.hear(UPDATED)
    assert clients[2].heard_of(UPDATED) == []

    assert (await clients[0].request("resources/unsubscribe", {"uri": "doc://one/a"})).result == {}
    assert session.subscriptions == {"doc://a"}
    session.notify(UPDATED, {"uri": "doc://a"})
    await clients[1].hear(UPDATED, 2)
    assert len(clients[0].heard_of(UPDATED)) == 1
    await clients[1].delete()
    await backend.until(lambda: not session.subscriptions)
    assert session.alive


async def test_ntf_07_subscriptions_are_refused_where_the_backend_has_none(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.capabilities["resources"] = {}
    await proxy.apply(http("one", backend.url))
    client = proxy.new_client()
    capabilities = (await client.initialize()).result["capabilities"]
    assert capabilities["resources"] == {"listChanged": True}
    error = (await client.request("resources/subscribe", {"uri": "doc://one/a"})).error
    assert error["code"] == -32601
    assert "team/one" in error["message"]
    assert backend.seen("resources/subscribe") == []


@pytest.mark.parametrize("uri", [None, 5, "doc://nobody/a"])
async def test_a_subscription_to_nothing_is_an_error(proxy: RunningProxy, backend: ScriptedBackend, uri: Any) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    error = (await client.request("resources/subscribe", {"uri": uri})).error
    assert error["code"] in (-32602, -32002)


async def test_changed_roots_are_told_to_backends_in_use(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    unused = await make_backend()
    await proxy.apply(http("one", backend.url), http("unused", unused.url))
    client = await proxy.client(capabilities={"roots": {"listChanged": True}})
    session = await bumped(client, backend)
    await client.notify("notifications/roots/list_changed")
    method = "notifications/roots/list_changed"
    await backend.until(lambda: any(each["method"] == method for each in session.notifications))
    assert unused.seen(method) == []
    assert len(backend.seen(method)) == 1


async def test_a_replaced_get_stream_ends_and_the_new_one_gets_everything(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    old = await proxy.client(listening=True)
    session = await bumped(old, backend)
    new = proxy.new_client()
    new.session_id = old.session_id
    await new.listen()
    await old.until_stream_ends()
    for number in range(3):
        session.notify(MESSAGE, {"level": "info", "data": number})
    await new.hear(MESSAGE, 3)
    assert old.heard_of(MESSAGE) == []
    assert session.listening == 1, "the backend has one stream for the session, whatever its client does"


async def test_messages_for_a_client_without_a_stream_are_kept_but_not_without_bound(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    session = await bumped(client, backend)
    await client.unlisten()
    for number in range(300):
        session.notify(MESSAGE, {"level": "info", "data": number})
    session.notify("notifications/vendor/last", {})
    await eventually(lambda: session.outbox.empty())
    await client.call("one_bump")
    await client.listen()
    await client.hear("notifications/vendor/last")
    kept = [each["params"]["data"] for each in client.heard_of(MESSAGE)]
    assert 50 <= len(kept) <= 100
    assert kept == sorted(kept)
    assert kept[-1] == 299, "the oldest are dropped, not the newest"
