"""Clients and programs of both eras with a bridge between them: what the clients' own tests ask of programs that the
proxy starts itself, here of one that it reaches through a bridge."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.bridge.serving import bridged
from tests.clients import (
    test_handshake_client_is_asked,
    test_log_and_progress,
    test_stateless_client_is_asked,
    test_subscriptions,
)
from tests.clients.feature_http import FeatureHttp
from tests.clients.site import BRIDGED, ROOT, Site, program
from tests.proxy.running import running_proxy

Journey = Callable[[Site, str], Awaitable[None]]

JOURNEYS: list[Journey] = [
    test_handshake_client_is_asked.test_several_rounds_the_first_of_several_questions,
    test_handshake_client_is_asked.test_a_client_that_refuses_is_an_error_of_the_call,
    test_handshake_client_is_asked.test_two_clients_are_asked_each_for_itself,
    test_handshake_client_is_asked.test_cancelling_the_call_cancels_it_at_the_backend,
    test_stateless_client_is_asked.test_several_rounds_the_first_of_several_questions,
    test_stateless_client_is_asked.test_a_client_that_goes_away_cancels_its_call,
    test_log_and_progress.test_a_stateless_client_hears_what_its_request_asked_for,
    test_log_and_progress.test_requests_at_the_same_time_hear_each_what_they_asked_for,
    test_log_and_progress.test_a_handshake_client_hears_what_it_set,
    test_subscriptions.test_updates_reach_a_stateless_client,
    test_subscriptions.test_updates_reach_a_handshake_client_until_it_unsubscribes,
    test_subscriptions.test_subscriptions_of_several_streams_are_counted,
    test_subscriptions.test_changes_of_lists_reach_clients_of_both_eras,
]


@pytest.fixture
async def site(backend: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The one backend, mounted and ready."""
    async with contextlib.AsyncExitStack() as stack:
        spec = await stack.enter_async_context(
            bridged(backend, *program(backend, tmp_path), env={"PYTHONPATH": str(ROOT)})
        )
        proxy = await stack.enter_async_context(running_proxy())
        site = Site(proxy, FeatureHttp("handshake"), FeatureHttp("stateless"), {backend: spec}, tmp_path)
        await site.mount(backend)
        yield site


@pytest.mark.parametrize("backend", BRIDGED)
@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.__name__.removeprefix("test_"))
async def test_a_bridge_changes_nothing(site: Site, backend: str, journey: Journey) -> None:
    await journey(site, backend)


@pytest.mark.parametrize("backend", BRIDGED)
async def test_the_program_introduces_itself(site: Site, backend: str) -> None:
    server = site.proxy.report(backend).server
    assert server is not None
    assert server.name != "mcp-connections"
    assert server.protocol_version == ("2025-11-25" if backend == "hb" else "2026-07-28")
    assert site.proxy.report(backend).transport == "stdio"
