"""One proxy in front of two golden servers, one of each era, for all examples of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.golden.relayed import Golden
from tests.golden.server import GoldenServer
from tests.proxy.running import running_proxy


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def golden() -> AsyncIterator[Golden]:
    async with contextlib.AsyncExitStack() as stack:
        for_handshake = await stack.enter_async_context(GoldenServer("handshake").serving())
        for_stateless = await stack.enter_async_context(GoldenServer("stateless").serving())
        proxy = await stack.enter_async_context(running_proxy())
        yield await Golden.of(proxy, for_handshake, for_stateless)
