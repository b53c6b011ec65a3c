"""What clients are subscribed to, and the sessions they listen in, go over to the mount that replaces another one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_connections.mounts.spec import AllowRule, Selection
from tests.backends.calls import Call, RpcFault, Session
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.clients.feature_http import FeatureHttp
from tests.clients.features import LIVE
from tests.clients.stateless_client import Listening, StatelessClient
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

UPDATED = "notifications/resources/updated"
RESOURCES = "notifications/resources/list_changed"
MESSAGE = "notifications/message"
URI = "doc://one/a"


@contextlib.asynccontextmanager
async def stateless_backend() -> AsyncIterator[FeatureHttp]:
    async with FeatureHttp("stateless").serving() as backend:
        yield backend


def subscribed(backend: ScriptedBackend) -> list[Session]:
    """The open sessions that hold subscriptions."""
    return [session for session in backend.live if session.subscriptions]


def watched(backend: FeatureHttp) -> bool:
    """Whether anybody listens to updates of resources."""
    return any(each.wanted.get("resourceSubscriptions") for each in backend.features.conversations)


def offering(backend: ScriptedBackend, *uris: str) -> ScriptedBackend:
    for uri in uris or ("doc://a",):
        backend.resource(uri)
    return backend


async def subscribe(client: Client, uri: str = URI) -> None:
    assert (await client.request("resources/subscribe", {"uri": uri})).result == {}


async def until_closed(proxy: RunningProxy) -> None:
    await eventually(lambda: all(each.state == "Closed" for each in proxy.registry.report().retired))


async def test_subscriptions_on_an_unchanged_mount_never_notice_reloads(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    (session,) = subscribed(backend)
    for number in range(10):
        await proxy.apply(http("one", backend.url), http("other", other.url, fingerprint=str(number)))
    await proxy.announced()
    assert subscribed(backend) == [session]
    assert len(backend.seen("resources/subscribe")) == 1
    assert client.heard_of(UPDATED) == []
    session.notify(UPDATED, {"uri": "doc://a"})
    await client.hear(UPDATED)


async def test_the_new_mount_subscribes_for_the_clients_of_the_old_one(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await proxy.apply(http("one", offering(backend).url))
    clients = [await proxy.client(listening=True) for _ in range(3)]
    for client in clients[:2]:
        await subscribe(client)

    await proxy.apply(http("one", new.url, fingerprint="2"))

    await new.until(lambda: len(subscribed(new)) == 2)
    for client in clients[:2]:
        assert (await client.hear(UPDATED))["params"] == {"uri": URI}, "what changed meanwhile nobody knows"
    await until_closed(proxy)
    assert backend.live == []
    await new.until(lambda: all(session.listening for session in subscribed(new)))
    for number, session in enumerate(subscribed(new), start=2):
        session.notify(UPDATED, {"uri": "doc://a", "number": number})
    for client in clients[:2]:
        assert (await client.hear(UPDATED, 2))["params"]["uri"] == URI
    assert clients[2].heard_of(UPDATED) == []
    assert all(client.heard_of(MESSAGE) == [] for client in clients)


async def test_subscriptions_survive_any_number_of_replacements(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    for number in range(10):
        await proxy.apply(http("one", backend.url, fingerprint=f"{number + 2}"))
    await until_closed(proxy)
    await backend.until(lambda: len(subscribed(backend)) == 1)
    (session,) = subscribed(backend)
    await proxy.announced()
    client.heard.clear()
    session.notify(UPDATED, {"uri": "doc://a", "last": True})
    assert (await client.hear(UPDATED))["params"]["last"] is True
    await client.request("resources/unsubscribe", {"uri": URI})
    assert subscribed(backend) == []


async def test_clients_of_a_shared_session_are_subscribed_together_again(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", offering(backend).url, session="Shared"))
    clients = [await proxy.client(listening=True) for _ in range(3)]
    for client in clients:
        await subscribe(client)
    await proxy.apply(http("one", backend.url, session="Shared", fingerprint="2"))
    for client in clients:
        await client.hear(UPDATED)
    await until_closed(proxy)
    (session,) = subscribed(backend)
    await backend.until(lambda: session.listening)
    session.notify(UPDATED, {"uri": "doc://a", "new": True})
    for client in clients:
        await client.hear(UPDATED, 2)
        assert client.heard_of(UPDATED)[-1]["params"]["new"] is True


async def test_a_new_mount_that_is_not_up_yet_subscribes_once_it_is(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await new.stop()
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    result = await proxy.apply(http("one", new.url, fingerprint="2"))
    assert [each.connection.name for each in result.skipped] == ["one"]
    await client.hear(RESOURCES)
    assert client.heard_of(MESSAGE) == [], "it is not over yet"
    await new.start()
    proxy.mount("one").wake()
    await client.hear(UPDATED)
    assert len(subscribed(new)) == 1


async def refuse(call: Call) -> Any:
    raise RpcFault(-32000, "no more of that")


async def end_refused(new: ScriptedBackend) -> dict[str, Any]:
    new.handlers["resources/subscribe"] = refuse
    return {}


async def end_not_offered(new: ScriptedBackend) -> dict[str, Any]:
    new.capabilities["resources"] = {}
    return {}


async def end_hidden(new: ScriptedBackend) -> dict[str, Any]:
    return {"resources": Selection(exclude=("*",))}


async def end_under_another_name(new: ScriptedBackend) -> dict[str, Any]:
    return {"prefix": "uno"}


async def end_not_allowed(new: ScriptedBackend) -> dict[str, Any]:
    return {"allow": (AllowRule(scopes=("admin",)),)}


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (end_refused, "no more of that"),
        (end_not_offered, "does not offer resource subscriptions"),
        (end_hidden, "does not have the resource under this URI"),
        (end_under_another_name, "does not have the resource under this URI"),
        (end_not_allowed, "is no longer there"),
    ],
)
async def test_a_client_is_told_of_a_subscription_that_cannot_be_made_anew(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend, ending: Any, why: str
) -> None:
    new, other = offering(await make_backend()), await make_backend()
    settings = await ending(new)
    await proxy.apply(http("one", offering(backend).url), http("other", other.url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    (old_session,) = subscribed(backend)

    await proxy.apply(http("one", new.url, fingerprint="2", **settings), http("other", other.url))

    told = (await client.hear(MESSAGE))["params"]
    assert (told["level"], told["logger"]) == ("warning", "mcp-connections")
    assert URI in told["data"]
    assert "connection team/one" in told["data"]
    assert why in told["data"]
    await client.hear(RESOURCES)
    await until_closed(proxy)
    assert not old_session.alive
    assert subscribed(new) == []
    assert client.heard_of(UPDATED) == []


async def test_a_client_of_a_removed_connection_is_told(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    await proxy.apply()
    await client.hear(RESOURCES)
    await proxy.announced()
    assert client.heard_of(MESSAGE) == [], "nobody here declares log messages any more"


@pytest.mark.parametrize("level", ["error", "warning"])
async def test_the_client_s_log_level_counts(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend, level: str
) -> None:
    new = offering(await make_backend())
    await end_refused(new)
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await client.request("logging/setLevel", {"level": level})
    await subscribe(client)
    await proxy.apply(http("one", new.url, fingerprint="2"))
    await client.hear(RESOURCES)
    await proxy.announced()
    assert len(client.heard_of(MESSAGE)) == (level == "warning")


async def test_a_connection_that_takes_over_the_prefix_takes_over_the_subscriptions(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    await proxy.apply(http("renamed", new.url, prefix="one"))
    await client.hear(UPDATED)
    assert len(subscribed(new)) == 1


async def test_unsubscribing_while_the_new_mount_is_not_up_counts(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await new.stop()
    await proxy.apply(http("one", offering(backend, "doc://a", "doc://b").url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    await subscribe(client, "doc://one/b")
    await proxy.apply(http("one", new.url, fingerprint="2"))
    assert (await client.request("resources/unsubscribe", {"uri": URI})).result == {}
    await new.start()
    proxy.mount("one").wake()
    await client.hear(UPDATED)
    assert [session.subscriptions for session in subscribed(new)] == [{"doc://b"}]


async def test_a_client_that_leaves_while_the_new_mount_is_not_up_leaves_nothing_behind(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await new.stop()
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    await proxy.apply(http("one", new.url, fingerprint="2"))
    assert await client.delete() == 200
    await new.start()
    proxy.mount("one").wake()
    await proxy.until_ready("one")
    await proxy.announced()
    assert new.client_sessions == []
    assert not proxy.registry._followers  # noqa: SLF001


async def test_a_client_that_listens_gets_a_session_with_the_new_mount_without_asking(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = await make_backend()
    await proxy.apply(http("one", backend.url))
    listening, silent, unused = (
        await proxy.client(listening=True, name="listening"),
        await proxy.client(name="silent"),
        await proxy.client(listening=True, name="unused"),
    )
    await listening.request("logging/setLevel", {"level": "error"})
    for client in (listening, silent):
        await client.call("one_bump")

    await proxy.apply(http("one", new.url, fingerprint="2"))

    await new.until(lambda: any(session.listening for session in new.client_sessions))
    (session,) = new.client_sessions
    assert session.hello["clientInfo"]["name"] == "listening"
    await new.until(lambda: session.log_level == "error")
    session.notify("notifications/vendor/thing", {"n": 1})
    assert (await listening.hear("notifications/vendor/thing"))["params"] == {"n": 1}
    assert (await listening.call("one_bump")).text == "1"
    assert new.client_sessions == [session], "the next request uses it"
    assert unused.heard_of("notifications/vendor/thing") == []


async def test_a_listener_s_session_opens_when_the_new_mount_comes_up(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = await make_backend()
    await new.stop()
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    await client.call("one_bump")
    await proxy.apply(http("one", new.url, fingerprint="2"))
    await proxy.apply(http("one", new.url, fingerprint="3"))
    await new.start()
    proxy.mount("one").wake()
    await new.until(lambda: len(new.client_sessions) == 1 and new.client_sessions[0].listening)


async def test_a_waiting_client_is_subscribed_again_after_the_backend_lost_its_sessions(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    (session,) = subscribed(backend)
    await backend.until(lambda: session.listening)
    backend.lose_sessions()
    await client.hear(UPDATED)
    (another,) = subscribed(backend)
    assert another is not session
    await backend.until(lambda: another.listening)
    another.notify(UPDATED, {"uri": "doc://a", "new": True})
    assert (await client.hear(UPDATED, 2))["params"]["new"] is True


async def test_a_waiting_client_is_told_when_the_backend_will_not_have_its_subscription_again(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client(listening=True)
    await subscribe(client)
    (session,) = subscribed(backend)
    await backend.until(lambda: session.listening)
    backend.handlers["resources/subscribe"] = refuse
    backend.lose_sessions()
    assert "no more of that" in (await client.hear(MESSAGE))["params"]["data"]
    await client.hear(RESOURCES)


async def test_a_replay_that_fails_on_the_way_is_made_up_for_by_the_next_request(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", offering(backend).url))
    client = await proxy.client()
    await subscribe(client)
    failing = True

    async def intercept(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(503) if failing and seen.rpc == "resources/subscribe" else None

    backend.intercept = intercept
    backend.lose_sessions()
    error = (await client.call("one_bump")).error
    assert "HTTP 503" in error["message"]
    failing = False
    assert (await client.call("one_bump")).text == "1"
    assert len(subscribed(backend)) == 1


# clients of the stateless era


@contextlib.asynccontextmanager
async def listening_to(proxy: RunningProxy, *uris: str, **others: bool) -> AsyncIterator[Listening]:
    client = StatelessClient(proxy.http, proxy.url)
    async with client.listening(resourceSubscriptions=list(uris), **others) as stream:
        assert (await stream.acknowledged())["resourceSubscriptions"] == list(uris)
        yield stream


@pytest.mark.parametrize("session", ["Isolated", "Shared"])
async def test_streams_go_on_at_the_new_mount(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend, session: str
) -> None:
    new = offering(await make_backend())
    await proxy.apply(http("one", offering(backend).url, session=session))
    async with listening_to(proxy, URI) as stream:
        await proxy.apply(http("one", new.url, session=session, fingerprint="2"))
        assert (await stream.hear(UPDATED))["params"]["uri"] == URI
        (upstream,) = subscribed(new)
        await new.until(lambda: upstream.listening)
        upstream.notify(UPDATED, {"uri": "doc://a", "new": True})
        params = (await stream.hear(UPDATED, 2))["params"]
        assert params == {"uri": URI, "new": True, "_meta": {"io.modelcontextprotocol/subscriptionId": "listen"}}
    await new.until(lambda: not subscribed(new))


async def test_a_stream_ends_where_a_subscription_cannot_be_made_anew(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    new = offering(await make_backend())
    await end_refused(new)
    await proxy.apply(http("one", offering(backend).url))
    async with listening_to(proxy, URI, toolsListChanged=True) as stream:
        await proxy.apply(http("one", new.url, fingerprint="2"))
        await stream.ended()
        assert stream.messages[-1]["result"]["resultType"] == "complete"
    client = StatelessClient(proxy.http, proxy.url)
    async with client.listening(resourceSubscriptions=[URI], toolsListChanged=True) as again:
        assert await again.acknowledged() == {"toolsListChanged": True, "resourceSubscriptions": []}


# backends of the stateless era


async def test_both_eras_go_on_at_a_new_mount_whose_backend_is_stateless(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    async with stateless_backend() as new:
        await proxy.apply(http("one", offering(backend, LIVE).url))
        client = await proxy.client(listening=True)
        await subscribe(client, "doc://one/live")
        async with listening_to(proxy, "doc://one/live") as stream:
            await proxy.apply(http("one", new.url, fingerprint="2"))
            for heard in (client, stream):
                await heard.hear(UPDATED)
            await eventually(lambda: watched(new))
            new.features.updated(LIVE)
            for heard in (client, stream):
                assert (await heard.hear(UPDATED, 2))["params"]["uri"] == "doc://one/live"


async def test_a_backend_that_becomes_one_of_the_other_era_is_subscribed_to_anew(proxy: RunningProxy) -> None:
    async with FeatureHttp("handshake").serving() as backend:
        await proxy.apply(http("one", backend.url))
        client = await proxy.client(listening=True)
        await subscribe(client, "doc://one/live")
        backend.become("stateless")
        proxy.mount("one").suspect()
        await client.hear(UPDATED)
        await eventually(
            lambda: any(each.wanted.get("resourceSubscriptions") for each in backend.features.conversations)
        )
        backend.features.updated(LIVE)
        await client.hear(UPDATED, 2)


async def test_what_a_stateless_backend_does_not_agree_to_has_ended(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateless_backend() as backend:
        await proxy.apply(http("one", backend.url))
        client = await proxy.client(listening=True)
        await subscribe(client, "doc://one/live")
        await eventually(
            lambda: any(each.wanted.get("resourceSubscriptions") for each in backend.features.conversations)
        )
        monkeypatch.setattr(backend.features, "listen", agreeing_to_nothing(backend))
        await proxy.apply(http("one", backend.url, fingerprint="2"))
        told = (await client.hear(MESSAGE))["params"]["data"]
        assert "doc://one/live" in told
        assert "does not tell of updates" in told


async def test_what_a_stateless_backend_does_not_agree_to_is_not_subscribed_to(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateless_backend() as backend:
        monkeypatch.setattr(backend.features, "listen", agreeing_to_nothing(backend))
        await proxy.apply(http("one", backend.url))
        client = await proxy.client(listening=True)
        error = (await client.request("resources/subscribe", {"uri": "doc://one/live"})).error
        assert error["code"] == -32602
        assert "connection team/one does not tell of updates" in error["message"]
        stateless = StatelessClient(proxy.http, proxy.url)
        async with stateless.listening(resourceSubscriptions=["doc://one/live"]) as stream:
            assert await stream.acknowledged() == {"resourceSubscriptions": []}
        await proxy.announced()
        assert client.heard_of(MESSAGE) == [], "the error was the answer"


def agreeing_to_nothing(backend: FeatureHttp) -> Any:
    listen = backend.features.listen

    def agree_to_nothing(message: Any, send: Any) -> Any:
        message["params"]["notifications"].pop("resourceSubscriptions", None)
        return listen(message, send)

    return agree_to_nothing


async def test_a_client_may_hold_a_thousand_subscriptions(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.downstream.held_subscriptions.MAX_HELD", 2)
    await proxy.apply(http("one", offering(backend, "doc://a", "doc://b", "doc://c").url))
    client = await proxy.client()
    for name in ("a", "b", "a"):
        await subscribe(client, f"doc://one/{name}")
    error = (await client.request("resources/subscribe", {"uri": "doc://one/c"})).error
    assert error["code"] == -32602
    assert "2 subscriptions" in error["message"]
    await client.request("resources/unsubscribe", {"uri": URI})
    await subscribe(client, "doc://one/c")
