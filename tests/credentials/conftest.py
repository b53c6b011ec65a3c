"""One proxy process in front of a scripted backend, under uvloop as in production."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.credentials.site import Site
from tests.credentials.token_server import TokenServer, serving
from tests.proxy.conftest import backend, make_backend, proxy, pytest_asyncio_loop_factories
from tests.proxy.running import RunningProxy

__all__ = ["backend", "make_backend", "proxy", "pytest_asyncio_loop_factories"]


@pytest.fixture
async def tokens() -> AsyncIterator[TokenServer]:
    """An authorization server's token endpoint."""
    async with serving() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, proxy: RunningProxy) -> Site:
    return Site(tmp_path, proxy)
