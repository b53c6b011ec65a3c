"""Two operators at once, as while one pod is replaced by another: they agree, and neither keeps the other busy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mcp_connections.operator.cluster import CONNECTION
from mcp_connections.operator.workers import RESYNC
from tests.cluster.control_plane import ControlPlane
from tests.operator.backend import Backend
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig
from tests.operator.test_idle import versions
from tests.operator.world import World, connection, proxy


async def test_they_agree_and_either_can_be_killed(
    control_plane: ControlPlane, world: World, backend: Backend, tmp_path: Path
) -> None:
    kubeconfig = operator_kubeconfig(control_plane, world.namespace)
    async with OperatorProcess(world.namespace, kubeconfig, tmp_path / "second.log") as second:
        await world.apply(proxy(), connection("one", backend.url), connection("two", backend.url))
        await world.until_ready("one")
        await world.until_ready("two")
        await world.patch("one", {"prefix": "changed"})
        await world.until(
            CONNECTION,
            "one",
            lambda live: [each["state"] for each in live["status"].get("retiredMounts", ())] == ["Closed"],
            what="one retired mount, closed",
        )
        await world.until_ready("one")
        await world.until_programmed()
        pods = await world.until_pods(1)
        await asyncio.sleep(3)
        before = await versions(world)
        await asyncio.sleep(RESYNC + 5)
        assert await versions(world) == before

        await world.operator.kill()
        await world.patch("two", {"prefix": "later"})
        await world.until_ready("two")
        assert await world.tools() == ["changed_echo", "changed_wait", "later_echo", "later_wait"]
        await world.operator.start()
        await second.kill()
        await world.patch("two", {"prefix": "last"})
        await world.until_ready("two")
        assert await world.tools() == ["changed_echo", "changed_wait", "last_echo", "last_wait"]
        assert await world.until_pods(1) == pods
        await second.start()
