"""A proxy process and scripted backends, as for the tests of the proxy."""

from __future__ import annotations

from tests.proxy.conftest import backend, make_backend, proxy, pytest_asyncio_loop_factories

__all__ = ["backend", "make_backend", "proxy", "pytest_asyncio_loop_factories"]
