"""Changes of lists and updates of resources: ``subscriptions/listen`` and the GET stream, in all pairings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.features import LIVE
from tests.clients.site import BACKENDS, Site
from tests.clients.stateless_client import PREFIX, Listening, StatelessClient
from tests.proxy.client import Client
from tests.proxy.running import eventually

UPDATED = "notifications/resources/updated"
LISTS = ("tools", "prompts", "resources")
SUBSCRIPTION = f"{PREFIX}/subscriptionId"


def public(backend: str, uri: str = LIVE) -> str:
    return uri.replace("://", f"://{backend}/", 1)


async def subscribed(site: Site, backend: str) -> None:
    """Returns once the backend knows of a subscription; a listen stream to it takes a moment."""
    if backend in site.http:
        features = site.http[backend].features
        await eventually(
            lambda: any(
                LIVE in each.subscribed or LIVE in each.wanted.get("resourceSubscriptions", ())
                for each in features.conversations
            )
        )
    else:
        await asyncio.sleep(0.2)


async def touched(client: Client | StatelessClient, backend: str, uri: str = LIVE) -> None:
    """Have the backend update a resource, in the client's own session if it has one."""
    await client.call(f"{backend}_touch", {"uri": uri})


@pytest.mark.parametrize("backend", BACKENDS)
async def test_updates_reach_a_stateless_client(site: Site, backend: str) -> None:
    client = site.stateless_client()
    async with client.listening(request_id=17, resourceSubscriptions=[public(backend)]) as listening:
        assert await listening.acknowledged() == {"resourceSubscriptions": [public(backend)]}
        await subscribed(site, backend)
        await touched(client, backend)
        update = await listening.hear(UPDATED)
        assert update["params"] == {"uri": public(backend), "_meta": {SUBSCRIPTION: 17}}
        await touched(client, backend, "doc://other")
        await touched(client, backend)
        await listening.hear(UPDATED, 2)
        assert [each["params"]["uri"] for each in listening.of(UPDATED)] == [public(backend)] * 2
        first = listening.messages[0]
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["_meta"] == {SUBSCRIPTION: 17}
    if backend in site.http:
        features = site.http[backend].features
        await eventually(
            lambda: (
                not any(each.subscribed or each.wanted.get("resourceSubscriptions") for each in features.conversations)
            )
        )


@pytest.mark.parametrize("backend", BACKENDS)
async def test_updates_reach_a_handshake_client_until_it_unsubscribes(site: Site, backend: str) -> None:
    client = await site.handshake_client()
    assert (await client.request("resources/subscribe", {"uri": public(backend)})).result == {}
    await subscribed(site, backend)
    await touched(client, backend)
    assert (await client.hear(UPDATED))["params"] == {"uri": public(backend)}
    assert (await client.request("resources/unsubscribe", {"uri": public(backend)})).result == {}
    other = await site.handshake_client()
    await other.request("resources/subscribe", {"uri": public(backend)})
    await subscribed(site, backend)
    for each in (client, other):
        await touched(each, backend)
    await other.hear(UPDATED)
    assert len(client.heard_of(UPDATED)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
async def test_subscriptions_of_several_streams_are_counted(site: Site, backend: str) -> None:
    client = site.stateless_client()
    uris = {"resourceSubscriptions": [public(backend)]}
    async with client.listening("a", **uris) as first:
        await first.acknowledged()
        async with client.listening("b", **uris) as second:
            await second.acknowledged()
            await subscribed(site, backend)
            await touched(client, backend)
            assert (await second.hear(UPDATED))["params"]["_meta"] == {SUBSCRIPTION: "b"}
            assert (await first.hear(UPDATED))["params"]["_meta"] == {SUBSCRIPTION: "a"}
        await asyncio.sleep(0.2)
        await touched(client, backend)
        await first.hear(UPDATED, 2)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_changes_of_lists_reach_clients_of_both_eras(site: Site, backend: str) -> None:
    handshake, stateless = await site.handshake_client(), site.stateless_client()
    everything: Any = {f"{kind}ListChanged": True for kind in LISTS}
    async with stateless.listening("l", **everything) as listening:
        assert await listening.acknowledged() == everything
        await control_session_listens(site, backend)
        await (handshake if backend in ("hs", "hb") else stateless).call(f"{backend}_add")
        for kind in LISTS:
            await handshake.hear(f"notifications/{kind}/list_changed")
            message = await listening.hear(f"notifications/{kind}/list_changed")
            assert message["params"] == {"_meta": {SUBSCRIPTION: "l"}}
        assert f"{backend}_late1" in await handshake.names()
        listed = (await stateless.request("prompts/list")).result["prompts"]
        assert f"{backend}_late1" in [each["name"] for each in listed]
        assert {each["method"] for each in listening.messages} == {
            "notifications/subscriptions/acknowledged",
            *(f"notifications/{kind}/list_changed" for kind in LISTS),
        }


async def control_session_listens(site: Site, backend: str) -> None:
    if backend in site.http:
        features = site.http[backend].features
        await eventually(lambda: features.conversations)
    else:
        await asyncio.sleep(0.2)


async def test_only_what_was_asked_for_is_sent(site: Site) -> None:
    client = site.stateless_client()
    async with client.listening("p", promptsListChanged=True, toolsListChanged=False) as listening:
        assert await listening.acknowledged() == {"promptsListChanged": True}
        for backend in BACKENDS:
            await control_session_listens(site, backend)
        await client.call("hh_add")
        await listening.hear("notifications/prompts/list_changed")
        await client.call("hh_add")
        await listening.hear("notifications/prompts/list_changed", 2)
        assert {each["method"] for each in listening.messages[1:]} == {"notifications/prompts/list_changed"}


async def test_what_cannot_be_had_is_left_out_of_the_acknowledgement(site: Site) -> None:
    client = site.stateless_client()
    uris = [public("hh"), "nobody://has/this", public("sh")]
    async with client.listening(resourceSubscriptions=uris) as listening:
        assert await listening.acknowledged() == {"resourceSubscriptions": [public("hh"), public("sh")]}
    async with client.listening() as listening:
        assert await listening.acknowledged() == {}


@pytest.mark.parametrize("filter_", [{"resourceSubscriptions": "x"}, {"resourceSubscriptions": [1]}])
async def test_a_bad_filter_is_refused(site: Site, filter_: Any) -> None:
    answer = await site.stateless_client().request("subscriptions/listen", {"notifications": filter_})
    assert answer.status == 400
    assert answer.error["code"] == -32602


async def test_a_stream_of_a_server_that_stops_ends_with_a_result(site: Site) -> None:
    client = site.stateless_client()
    async with client.listening("end", toolsListChanged=True) as listening:
        await listening.acknowledged()
        site.proxy.process.app.close_streams()
        await listening.ended()
        assert listening.messages[-1]["result"] == {"resultType": "complete", "_meta": {SUBSCRIPTION: "end"}}
        assert listening.messages[-1]["id"] == "end"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_comes_ahead_of_the_acknowledgement(site: Site, backend: str) -> None:
    """An update may be under way while the subscription to another backend is still being made."""
    client = site.stateless_client()
    uris = [public(backend), *(public(other) for other in BACKENDS if other != backend)]

    async def listen(number: int) -> Listening:
        async with client.listening(number, resourceSubscriptions=uris) as listening:
            await listening.acknowledged()
            return listening

    streams = [asyncio.create_task(listen(number)) for number in range(5)]
    for _ in range(5):
        await touched(client, backend)
    for stream in streams:
        assert (await stream).messages[0]["method"] == "notifications/subscriptions/acknowledged"
