"""An idle system writes nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp_connections.operator.cluster import (
    CONNECTION,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    PROXY,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from mcp_connections.operator.workers import RESYNC
from tests.operator.backend import Backend
from tests.operator.world import World, connection, proxy, stdio

KINDS = (CONNECTION, PROXY, DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, NETWORK_POLICY, SECRET, POD, EVENT)
ECHO = (sys.executable, str(Path(__file__).parents[1] / "cli" / "echo_backend.py"))


async def versions(world: World) -> dict[tuple[str, str], str]:
    """resourceVersion of every object of the namespace."""
    return {
        (kind.kind, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
        for kind in KINDS
        for each in await world.cluster.list_all(kind, world.namespace)
    }


async def test_nothing_is_written_while_nothing_changes(world: World, backend: Backend) -> None:
    names = ["one", "two", "three"]
    await world.apply(
        proxy(stdio={"allowed": True}),
        stdio("command", *ECHO, env=[{"name": "EMPTY", "value": ""}]),
        *(connection(name, backend.url) for name in names),
        connection("off", backend.url, enabled=False),
        connection("z-clash", backend.url, prefix="one"),
    )
    for name in (*names, "command"):
        await world.until_ready(name)
    await world.until_programmed()
    await world.patch("three", {"metadata": {"edited": "once"}})
    await world.until(
        CONNECTION,
        "three",
        lambda live: [each["state"] for each in live["status"].get("retiredMounts", ())] == ["Closed"],
        what="a closed retired mount",
    )
    await world.until_ready("three")
    await asyncio.sleep(3)

    before = await versions(world)
    await asyncio.sleep(RESYNC + 5)
    during = await versions(world)
    await world.operator.stop()
    await world.operator.start()
    await asyncio.sleep(10)
    after_restart = await versions(world)

    assert during == before
    assert after_restart == before
