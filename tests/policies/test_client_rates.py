"""rateLimit of the McpProxy: each client for itself, in both eras, whatever it asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_connections.mounts.spec import RateLimit
from mcp_connections.proxy.access.client_access import ANONYMOUS, Principal
from mcp_connections.proxy.downstream import client_rates
from mcp_connections.proxy.downstream.client_rates import ClientRates
from mcp_connections.proxy.wire.jsonrpc import RpcError
from tests.backends.scripted import ScriptedBackend
from tests.clients.stateless_client import StatelessClient
from tests.operator.virtual_time import virtual_time
from tests.proxy.client import Answer
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

THREE = RateLimit(requests=1, per=1000, burst=3)


class Client:
    """As much of a client as its rate has to do with."""

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.principal = principal


def subject(name: str) -> Principal:
    return Principal(f"issuer {name}", frozenset(), {"sub": name})


def passes(rates: ClientRates, client: Any, limit: RateLimit = THREE, requests: int = 10) -> int:
    """How many of so many requests are let through."""
    passed = 0
    for _ in range(requests):
        try:
            rates.check(limit, client)
            passed += 1
        except RpcError:
            pass
    return passed


@virtual_time
async def test_clients_without_a_token_have_a_bucket_a_session() -> None:
    rates = ClientRates()
    everybody = Principal("bearer", frozenset(), {})
    assert [passes(rates, Client()) for _ in range(3)] == [3, 3, 3]
    assert [passes(rates, Client(everybody)) for _ in range(2)] == [3, 3], "all of them present the same token"


@virtual_time
async def test_the_sessions_of_one_subject_share_one() -> None:
    rates = ClientRates()
    assert passes(rates, Client(subject("ann"))) == 3
    assert passes(rates, Client(subject("ann"))) == 0
    assert passes(rates, Client(subject("bob"))) == 3


@virtual_time
async def test_time_gives_tokens_back() -> None:
    rates, client = ClientRates(), Client()
    passes(rates, client)
    with pytest.raises(RpcError) as caught:
        rates.check(THREE, client)  # type: ignore[arg-type]
    assert caught.value.data == {"reason": "RateLimited", "retryAfter": 1000}
    assert str(caught.value) == (
        "the endpoint refused the request (RateLimited): rateLimit of the McpProxy allows 1 requests per 1000 s, 3 of"
        " them at once; try again in 1000 s"
    )
    await asyncio.sleep(1000)
    assert passes(rates, client) == 1


@virtual_time
async def test_a_reload_forgets_nothing_and_another_limit_begins_anew() -> None:
    rates, client, named = ClientRates(), Client(), Client(subject("ann"))
    assert (passes(rates, client), passes(rates, named)) == (3, 3)
    same = THREE.model_copy()
    assert (passes(rates, client, same), passes(rates, named, same)) == (0, 0)
    other = THREE.model_copy(update={"burst": 5})
    assert (passes(rates, client, other), passes(rates, named, other)) == (5, 5)


def test_no_more_subjects_are_remembered_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rates, "MAX_SUBJECTS", 2)

    @virtual_time
    async def test() -> None:
        rates = ClientRates()
        ann, bob, cid = (Client(subject(name)) for name in ("ann", "bob", "cid"))
        assert [passes(rates, each) for each in (ann, bob, ann, cid)] == [3, 3, 0, 3]
        assert passes(rates, ann) == 0
        assert passes(rates, bob) == 3, "the one not heard of for longest"

    test()


def refused(answers: list[Answer]) -> int:
    return sum(answer.response.get("error", {}).get("data", {}).get("reason") == "RateLimited" for answer in answers)


async def test_a_client_that_asks_too_much_disturbs_no_other(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url), client_rate_limit=THREE)
    greedy, modest = await proxy.client(), await proxy.client()
    answers = [await greedy.request("tools/list"), await greedy.request("prompts/list")]
    answers += [await greedy.call("one_echo") for _ in range(4)]
    assert [refused([answer]) for answer in answers] == [0, 0, 0, 1, 1, 1]
    assert len(backend.calls_of("echo")) == 1
    assert answers[-1].error["data"]["retryAfter"] > 900
    assert (await greedy.request("ping")).result == {}, "a client that is told to wait may say that it is there"
    assert refused([await modest.call("one_echo")]) == 0
    assert proxy.process.metrics.registry.get_sample_value("mcp_connections_client_requests_refused_total") == 3


async def test_stateless_clients_are_told_apart_by_what_they_say_of_themselves(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url), client_rate_limit=THREE)
    greedy = StatelessClient(proxy.http, proxy.url, name="greedy")
    modest = StatelessClient(proxy.http, proxy.url, name="modest")
    answers = [await greedy.request("tools/list") for _ in range(5)]
    assert refused(answers) == 2
    async with greedy.listening(toolsListChanged=True) as listening:
        pass
    assert listening.of("notifications/subscriptions/acknowledged") == []
    assert refused([await modest.call("one_echo")]) == 0


async def test_the_limit_comes_and_goes_without_touching_a_mount(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    mount, client = proxy.mount("one"), await proxy.client()
    assert refused([await client.call("one_echo") for _ in range(10)]) == 0
    result = await proxy.apply(http("one", backend.url), client_rate_limit=THREE)
    assert (len(result.kept), result.replaced) == (1, ())
    assert refused([await client.call("one_echo") for _ in range(5)]) == 2
    await proxy.apply(http("one", backend.url), client_rate_limit=THREE)
    assert refused([await client.call("one_echo")]) == 1
    await proxy.apply(http("one", backend.url))
    assert refused([await client.call("one_echo") for _ in range(5)]) == 0
    assert proxy.mount("one") is mount
