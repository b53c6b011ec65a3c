"""One proxy in front of the feature backend in both eras, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.clients.feature_http import FeatureHttp
from tests.clients.site import Site
from tests.proxy.running import running_proxy


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Everything, mounted and ready."""
    async with contextlib.AsyncExitStack() as stack:
        handshake = await stack.enter_async_context(FeatureHttp("handshake").serving())
        stateless = await stack.enter_async_context(FeatureHttp("stateless").serving())
        proxy = await stack.enter_async_context(running_proxy())
        site = Site(proxy, handshake, stateless, {}, tmp_path)
        await site.mount()
        yield site
