"""When a token is fetched, in virtual time: once for everybody, before it expires, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mcp_connections.proxy.channels.channel import ChannelError, Unauthorized, Unreachable
from mcp_connections.proxy.channels.client_credentials import AccessToken
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.token_keeper import RENEWAL_PAUSE, TokenKeeper
from tests.operator.virtual_time import virtual_time


class Endpoint:
    """Gives out t1, t2, …, each after ``seconds``, good for ``lifetime``."""

    def __init__(self, lifetime: float | None = 3600.0, seconds: float = 1.0) -> None:
        self.lifetime = lifetime
        self.seconds = seconds
        self.fault: ChannelError | None = None
        self.same = False
        """It gives out the same token every time."""
        self.fetches: list[float] = []

    async def fetch(self) -> AccessToken:
        self.fetches.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        return AccessToken("t" if self.same else f"t{len(self.fetches)}", self.lifetime)


class Backend:
    """Answers a request with 401 for every token but those it takes."""

    def __init__(self, takes: Callable[[str], bool]) -> None:
        self.takes = takes
        self.got: list[str] = []

    async def serve(self, token: str) -> int:
        self.got.append(token)
        await asyncio.sleep(0.1)
        return 200 if self.takes(token) else 401


def keeper_of(endpoint: Endpoint) -> TokenKeeper:
    return TokenKeeper(endpoint.fetch, Redactor(()))


async def spend(keeper: TokenKeeper, backend: Backend) -> int:
    return await keeper.spend(backend.serve, lambda status: status == 401)


@virtual_time
async def test_one_fetch_serves_all_who_wait_and_all_who_come_later() -> None:
    endpoint = Endpoint()
    keeper = keeper_of(endpoint)

    assert set(await asyncio.gather(*(keeper.token() for _ in range(100)))) == {"t1"}
    await asyncio.sleep(3000)

    assert await keeper.token() == "t1"
    assert len(endpoint.fetches) == 1


@virtual_time
async def test_it_is_renewed_before_it_expires_counted_from_the_request() -> None:
    endpoint = Endpoint(lifetime=3600.0, seconds=10.0)
    keeper = keeper_of(endpoint)
    await keeper.token()

    await asyncio.sleep(3600 - 30 - 10 - 1)
    assert await keeper.token() == "t1"
    await asyncio.sleep(2)
    assert await keeper.token() == "t2"


@virtual_time
async def test_one_that_cannot_be_renewed_in_time_is_used_to_its_end() -> None:
    endpoint = Endpoint(lifetime=3600.0, seconds=0.0)
    keeper = keeper_of(endpoint)
    await keeper.token()
    endpoint.fault = Unreachable("down")

    await asyncio.sleep(3571)
    assert [await keeper.token() for _ in range(100)] == ["t1"] * 100
    assert len(endpoint.fetches) == 2
    await asyncio.sleep(30)
    with pytest.raises(Unreachable, match="down"):
        await keeper.token()


@virtual_time
async def test_a_short_life_is_used_for_nine_tenths() -> None:
    keeper = keeper_of(Endpoint(lifetime=10.0, seconds=0.0))
    await keeper.token()

    await asyncio.sleep(8.9)
    assert await keeper.token() == "t1"
    await asyncio.sleep(0.2)
    assert await keeper.token() == "t2"


@virtual_time
async def test_one_that_expires_at_once_serves_those_who_waited() -> None:
    endpoint = Endpoint(lifetime=0.0)
    keeper = keeper_of(endpoint)

    assert {*await asyncio.gather(keeper.token(), keeper.token())} == {"t1"}
    assert await keeper.token() == "t2"


@virtual_time
async def test_one_without_an_end_is_kept_until_it_is_refused() -> None:
    endpoint = Endpoint(lifetime=None)
    keeper = keeper_of(endpoint)
    backend = Backend(lambda token: True)
    await spend(keeper, backend)
    await asyncio.sleep(1e6)
    backend.takes = lambda token: token != "t1"

    assert await spend(keeper, backend) == 200
    assert backend.got == ["t1", "t1", "t2"]


@virtual_time
async def test_a_revoked_token_is_replaced_once_however_many_find_out() -> None:
    endpoint = Endpoint()
    keeper = keeper_of(endpoint)
    backend = Backend(lambda token: True)
    await spend(keeper, backend)
    for revoked in range(1, 4):  # and again at once, as long as the backend takes the new one
        backend.takes = lambda token, revoked=revoked: token == f"t{revoked + 1}"  # type: ignore[misc]

        assert set(await asyncio.gather(*(spend(keeper, backend) for _ in range(50)))) == {200}
        assert len(endpoint.fetches) == revoked + 1


@virtual_time
async def test_a_backend_that_takes_no_token_does_not_have_one_fetched_for_each_request() -> None:
    endpoint = Endpoint(seconds=0.0)
    keeper = keeper_of(endpoint)
    backend = Backend(lambda token: False)

    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 10 * RENEWAL_PAUSE:
        assert await spend(keeper, backend) == 401

    assert 10 <= len(endpoint.fetches) <= 12
    assert backend.got[:2] == ["t1", "t2"]


@virtual_time
async def test_an_endpoint_that_gives_out_the_same_token_again_is_not_asked_for_ever() -> None:
    endpoint = Endpoint()
    endpoint.same = True
    keeper = keeper_of(endpoint)
    backend = Backend(lambda token: False)

    assert await asyncio.gather(*(spend(keeper, backend) for _ in range(20))) == [401] * 20
    assert len(endpoint.fetches) == 2


@virtual_time
async def test_after_a_failure_everybody_is_told_and_the_endpoint_is_left_alone_for_a_while() -> None:
    endpoint = Endpoint(seconds=0.0)
    endpoint.fault = Unreachable("down", executed=True)
    keeper = keeper_of(endpoint)

    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 60:
        with pytest.raises(Unreachable, match="down") as caught:
            await keeper.token()
        assert not caught.value.executed
        await asyncio.sleep(0.05)

    pauses = [later - earlier for earlier, later in zip(endpoint.fetches, endpoint.fetches[1:], strict=False)]
    assert pauses[:4] == pytest.approx([0.35, 0.7, 1.4, 2.8], abs=0.06)
    assert max(pauses) < 5.1
    endpoint.fault = None
    await asyncio.sleep(5)
    assert await keeper.token() == f"t{len(endpoint.fetches)}"


@virtual_time
async def test_a_fetch_outlives_the_one_who_asked_and_its_failure_is_told_to_each() -> None:
    endpoint = Endpoint()
    endpoint.fault = Unauthorized("no")
    keeper = keeper_of(endpoint)
    first, second = asyncio.create_task(keeper.token()), asyncio.create_task(keeper.token())
    await asyncio.sleep(0.5)
    first.cancel()

    with pytest.raises(Unauthorized) as caught:
        await second
    assert caught.value is not endpoint.fault
    assert len(endpoint.fetches) == 1


@virtual_time
async def test_closing_ends_a_fetch() -> None:
    endpoint = Endpoint(seconds=1e9)
    keeper = keeper_of(endpoint)
    waiting = asyncio.create_task(keeper.token())
    await asyncio.sleep(1)
    keeper.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
