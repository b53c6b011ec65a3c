"""A watch that falls silent, with every pooled connection, blinds the operator for a while and not for good."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcp_connections.operator.cluster import CONNECTION, Cluster
from tests.cluster.control_plane import ControlPlane
from tests.operator.backend import Backend
from tests.operator.kubelet import Kubelet
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig
from tests.operator.stalling_proxy import StallingProxy
from tests.operator.world import World, connection, proxy

SILENCE = float(os.environ.get("SILENT_SECONDS", "1"))
"""How long new connections to the API server carry nothing either. ``SILENT_SECONDS=600 pytest -k k8s_09`` is ten
minutes of it."""


async def test_k8s_09_an_edit_that_no_event_told_of_is_found_by_the_resync(
    control_plane: ControlPlane, namespace: str, cluster: Cluster, kubelet: Kubelet, backend: Backend, tmp_path: Path
) -> None:
    straight = operator_kubeconfig(control_plane, namespace)
    port = int(control_plane.url.rpartition(":")[2])
    async with StallingProxy(port) as hop:
        through = tmp_path / "through.kubeconfig"
        through.write_text(straight.read_text().replace(f":{port}", f":{hop.port}"))
        async with OperatorProcess(namespace, through, tmp_path / "operator.log") as operator:
            world = World(control_plane, namespace, cluster, kubelet, operator)
            await world.apply(proxy(), connection("notes", backend.url))
            await world.until_ready("notes")

            hop.stall()
            async with hop.held():
                await world.patch("notes", {"prefix": "memo"})
                await asyncio.sleep(SILENCE)

            await world.until(
                CONNECTION,
                "notes",
                lambda live: live["status"].get("mount", {}).get("prefix") == "memo",
                what="the new prefix",
                timeout=240,
            )
            await world.until_ready("notes")
            assert await world.tools() == ["memo_echo", "memo_wait"]
