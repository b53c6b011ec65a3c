"""Every channel is tested on both event loops: uvloop, which serves, and asyncio's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.channels.children import Children, zombies


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def nothing_went_wrong_unseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What fails in the background is only logged: by the channel, or by asyncio."""
    yield
    errors = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not errors


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    """Starts child processes; when their channels are closed none may be left, dead or alive."""
    children = Children(tmp_path)
    yield children
    await children.aclose()
    alive = children.alive()
    children.kill()
    assert not alive, "processes outlived their channel"
    assert not zombies(), "processes were not reaped"
