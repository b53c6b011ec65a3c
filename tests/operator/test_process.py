"""The operator as a process: what it says when it cannot start, and its liveness probe."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp

from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig


async def exit_of(operator: OperatorProcess) -> int:
    assert operator.process is not None
    async with asyncio.timeout(90):
        return await operator.process.wait()


async def test_without_the_crds_it_ends_and_says_what_to_install(tmp_path: Path) -> None:
    plane = ControlPlane(find_or_prepare(), tmp_path / "plane")
    plane.start()
    try:
        async with OperatorProcess("default", plane.kubeconfig, tmp_path / "log") as operator:
            code = await exit_of(operator)
    finally:
        await asyncio.to_thread(plane.stop)

    text = (tmp_path / "log").read_text()
    assert code == 1
    assert "does not serve mcpconnections and mcpproxies" in text
    assert "mcp-connections crd" in text
    assert "Traceback" not in text


async def test_without_a_cluster_it_ends_and_says_which_one_it_tried(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as holder:
        url = f"https://127.0.0.1:{holder.getsockname()[1]}"
    kubeconfig.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {{server: '{url}'}}}}], "
        "users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )

    async with OperatorProcess("default", kubeconfig, tmp_path / "log") as operator:
        code = await exit_of(operator)

    assert code == 1
    assert url.removeprefix("https://") in (tmp_path / "log").read_text()


async def test_the_liveness_probe_answers(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    kubeconfig = operator_kubeconfig(control_plane, namespace)
    operator = OperatorProcess(namespace, kubeconfig, tmp_path / "log", "--liveness-port", str(port))

    async with operator, aiohttp.ClientSession() as session, asyncio.timeout(90):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    assert response.status == 200
                    assert await response.json() == {"reconcile": "ok"}
                    break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
