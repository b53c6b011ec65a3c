"""One proxy process in front of scripted backends, under uvloop as in production."""

from __future__ import annotations

from tests.proxy.conftest import backend, make_backend, proxy, pytest_asyncio_loop_factories

__all__ = ["backend", "make_backend", "proxy", "pytest_asyncio_loop_factories"]
