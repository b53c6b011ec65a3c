"""Everything here runs under uvloop, as the proxy does in production."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
import uvloop

from tests.backends.scripted import ScriptedBackend
from tests.proxy.running import RunningProxy, running_proxy

MakeBackend = Callable[[], Awaitable[ScriptedBackend]]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def make_backend() -> AsyncIterator[MakeBackend]:
    """Starts scripted backends."""
    async with contextlib.AsyncExitStack() as stack:

        async def make() -> ScriptedBackend:
            backend = ScriptedBackend()
            await stack.enter_async_context(backend.serving())
            return backend

        yield make


@pytest.fixture
async def backend(make_backend: MakeBackend) -> ScriptedBackend:
    """One scripted backend."""
    return await make_backend()


@pytest.fixture
async def proxy(make_backend: MakeBackend) -> AsyncIterator[RunningProxy]:
    """A proxy process on a free port. It ends before its backends do."""
    async with running_proxy() as proxy:
        yield proxy
