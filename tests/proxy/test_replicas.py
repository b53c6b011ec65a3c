"""Two replicas and no affinity: a session works through either of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_connections.mounts.spec import Access
from mcp_connections.proxy.downstream.replica import HOP_HEADER, Replica, derived_key
from mcp_connections.proxy.process import ProxyProcess
from tests.backends.http_server import HttpServer, free_socket
from tests.backends.scripted import ScriptedBackend, text
from tests.proxy.client import Client
from tests.proxy.desired import desired, http
from tests.proxy.running import RunningProxy, http_client

KEY = derived_key("the admin token")


@contextlib.asynccontextmanager
async def replicas(count: int, key: bytes = KEY) -> AsyncIterator[list[RunningProxy]]:
    """Proxies that share a key; each knows the address it is served at."""
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(http_client())
        running = []
        for _ in range(count):
            with free_socket() as reserved:
                port = reserved.getsockname()[1]
            process = ProxyProcess(host="127.0.0.1", replica=Replica(f"127.0.0.1:{port}", key))
            server = HttpServer(process.app)
            server.port = port
            await server.start()
            proxy = RunningProxy(process, server, session)
            stack.push_async_callback(process.registry.aclose)
            stack.push_async_callback(server.stop)
            stack.callback(process.app.close_streams)
            stack.push_async_callback(proxy.aclose)
            running.append(proxy)
        yield running


def at(client: Client, proxy: RunningProxy) -> Client:
    """The same client, sent to another replica by the load balancer."""
    client.url = proxy.url
    return client


async def test_a_session_works_through_any_replica(backend: ScriptedBackend) -> None:
    async with replicas(2) as (one, two):
        for proxy in (one, two):
            await proxy.registry.apply(desired(http("b", backend.url)))
        client = await one.client()
        counts = [(await at(client, proxy).call("b_bump")).text for proxy in (one, two, one, two, two)]
        assert counts == ["1", "2", "3", "4", "5"]
        assert await at(client, two).names() == ["b_echo", "b_bump"]
        assert await at(client, two).delete() == 200
        assert (await at(client, one).request("ping")).status == 404


async def test_streams_and_questions_go_through_too(backend: ScriptedBackend) -> None:
    async def ask(call: Any) -> Any:
        answer = await call.ask("roots/list", {})
        return text(answer["result"]["roots"][0]["uri"])

    backend.tool("ask", ask)
    backend.answers_with_sse = True
    async with replicas(2) as (one, two):
        for proxy in (one, two):
            await proxy.registry.apply(desired(http("b", backend.url)))
        client = await one.client(capabilities={"roots": {}})

        async def roots(_message: dict[str, Any]) -> Any:
            return {"roots": [{"uri": "file:///home"}]}

        client.answerers["roots/list"] = roots
        await at(client, two).listen()
        assert (await client.call("b_ask")).text == "file:///home"
        await one.registry.apply(desired(http("b", backend.url), http("c", backend.url)))
        await client.hear("notifications/tools/list_changed")


async def test_a_gone_owner_is_a_lost_session(backend: ScriptedBackend) -> None:
    async with replicas(1) as (two,):
        async with replicas(1) as (one,):
            left = (await one.client()).session_id
        client = two.new_client()
        client.session_id = left
        answer = await client.request("ping")
        assert answer.status == 404
        assert "initialize" in answer.error["message"]


async def test_owners_that_no_replica_named_are_not_believed(backend: ScriptedBackend) -> None:
    """Somebody else's address in a session id would make the proxy send requests, tokens and all, anywhere."""
    async with replicas(1) as (one,):
        for key in (b"", b"another key"):
            forged = Replica(backend.server.origin.removeprefix("http://"), key or b"x").new_id()
            client = one.new_client()
            client.session_id = forged
            assert (await client.request("ping")).status == 404
        assert backend.requests == []


async def test_what_was_passed_on_once_goes_no_further() -> None:
    async with replicas(2) as (one, two):
        client = await one.client()
        hop = {HOP_HEADER.decode(): "1"}
        assert (await at(client, two).request("ping", **hop)).status == 404


async def test_the_owner_checks_credentials_itself() -> None:
    async with replicas(2) as (one, two):
        for proxy, token in ((one, "s3cret"), (two, "s3cret")):
            await proxy.registry.apply(desired(access=Access(method="bearer", bearer_token=token)))
        client = one.new_client()
        bare = client.headers
        client.headers = lambda **extra: {"authorization": "Bearer s3cret", **bare(**extra)}  # type: ignore[method-assign]
        await client.initialize()
        assert (await at(client, two).request("ping")).status == 200
        await one.registry.apply(desired(access=Access(method="bearer", bearer_token="rotated")))
        assert (await at(client, two).request("ping")).status == 401


@pytest.mark.parametrize("text_id", ["", "a", "a.b", "a.b.c", "....", "é.é.é"])
def test_ids_of_other_makers_have_no_owner(text_id: str) -> None:
    assert Replica("10.0.0.1:8000", KEY).owner_of(text_id) is None


def test_an_only_replica_has_plain_ids() -> None:
    alone = Replica()
    assert "." not in alone.new_id()
    assert alone.owner_of(Replica("10.0.0.1:8000", KEY).new_id()) is None


def test_owners_are_named_by_their_ids() -> None:
    one, two = Replica("10.0.0.1:8000", KEY), Replica("[fd00::2]:8000", KEY)
    assert one.owner_of(two.new_id()) == "[fd00::2]:8000"
    assert one.owner_of(one.new_id()) is None
    assert len({one.new_id() for _ in range(100)}) == 100


async def test_a_client_that_leaves_cancels_at_the_owner(backend: ScriptedBackend) -> None:
    stuck = asyncio.Event()

    async def wait(call: Any) -> Any:
        stuck.set()
        await asyncio.sleep(60)

    backend.tool("wait", wait)
    async with replicas(2) as (one, two):
        for proxy in (one, two):
            await proxy.registry.apply(desired(http("b", backend.url)))
        client = await one.client()
        task = asyncio.create_task(at(client, two).call("b_wait"))
        await stuck.wait()
        task.cancel()
        await one.until(lambda: any(seen.rpc == "notifications/cancelled" for seen in backend.requests))
