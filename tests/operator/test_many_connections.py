"""Many connections of one proxy: the operator gets them ready, rests, and takes one edit at once.

``CONNECTIONS=1000 pytest -s tests/operator/test_many_connections.py`` prints the figures of a larger set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from mcp_connections.operator.workers import RESYNC
from tests.backends.scripted_process import scripted_process
from tests.operator.test_idle import versions
from tests.operator.world import World, condition, connection, proxy
from tests.soak.process import cpu_seconds, resident_mib

MANY = int(os.environ.get("CONNECTIONS", "50"))
REST = RESYNC + 5 if MANY > 50 else 5.0
"""Seconds of rest. ``test_idle`` waits for a resync with few connections."""
AT_ONCE = 100
PATIENCE = 600.0


def pid(world: World) -> int:
    assert world.operator.process is not None
    return world.operator.process.pid


async def until_all_ready(world: World) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await world.proxy())["status"].get("connections", {}).get("ready") != MANY:
            await asyncio.sleep(0.25)


async def edit_to_live(world: World) -> float:
    """Seconds from an edit until a call by the new name succeeds, of a client that is connected."""
    async with Client(await world.endpoint(), timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        await client.call_tool("c0000_echo", {"text": "before"})
        started = monotonic()
        await world.kubectl("patch", "mcpc", "c0000", "--type=merge", "-p", json.dumps({"spec": {"prefix": "edited"}}))
        while True:
            with contextlib.suppress(MCPError):
                await client.call_tool("edited_echo", {"text": "after"})
                return monotonic() - started
            await asyncio.sleep(0.05)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A backend that costs this process nothing."""
    async with scripted_process() as url:
        yield url


async def test_many_from_a_cold_start(world: World, url: str) -> None:
    await world.operator.stop()
    for first in range(0, MANY, AT_ONCE):
        batch = range(first, min(first + AT_ONCE, MANY))
        await world.apply(*(connection(f"c{number:04}", url) for number in batch))
    await world.apply(proxy())

    started = monotonic()
    await world.operator.start()
    await until_all_ready(world)
    cold = monotonic() - started
    await world.until_programmed()
    start_cpu = cpu_seconds(pid(world))

    await asyncio.sleep(5)
    before, begun, clock = await versions(world), cpu_seconds(pid(world)), monotonic()
    await asyncio.sleep(REST)
    idle = (cpu_seconds(pid(world)) - begun) / (monotonic() - clock)
    assert await versions(world) == before, "nothing is written while nothing changes"

    live = await edit_to_live(world)
    edited = await world.until_ready("c0000")
    assert condition(edited, "Ready")["status"] == "True"

    print(
        f"\n{MANY} connections: cold start to all ready {cold:.1f} s with {start_cpu:.1f} s of CPU; "
        f"at rest {idle:.2%} of a core, {resident_mib(pid(world)):.0f} MiB; an edit to live {live:.2f} s"
    )
