from __future__ import annotations

from tests.proxy.conftest import backend as backend
from tests.proxy.conftest import make_backend as make_backend
from tests.proxy.conftest import proxy as proxy
from tests.proxy.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories
