"""The operator as a process: what it says when it cannot start, and its liveness probe."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from pathlib import Path

import aiohttp

from mcp_connections.mounts.spec import DesiredMounts, HttpServer
from mcp_connections.operator.cluster import SECRET, Cluster
from mcp_connections.operator.mount_secrets import part_key, unpack
from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.cluster.plugin import CRDS
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig
from tests.operator.world import connection, proxy


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


async def test_over_all_namespaces_each_uses_its_own_secrets(tmp_path: Path) -> None:
    """Same names in two namespaces: nothing of one may reach the other."""
    plane = ControlPlane(find_or_prepare(), tmp_path / "plane")
    plane.start()
    try:
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        header = {"name": "X-Team", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}}
        notes = connection("notes", "http://notes.example/mcp", http={"headers": [header]})
        for team in ("red", "blue"):
            plane.kubectl("create", "namespace", team)
            plane.kubectl("-n", team, "create", "secret", "generic", "token", f"--from-literal=key=of-{team}")
            for manifest in (proxy(), notes):
                plane.kubectl("-n", team, "apply", "-f", "-", input=json.dumps(manifest))
        async with (
            OperatorProcess(None, plane.kubeconfig, tmp_path / "log"),
            await Cluster.connect(plane.kubeconfig) as c,
        ):
            mounted = {team: await mounts(c, team) for team in ("red", "blue")}
    finally:
        await asyncio.to_thread(plane.stop)

    for team, desired in mounted.items():
        (spec,) = desired.mounts
        assert spec.connection.namespace == team
        assert isinstance(spec.server, HttpServer)
        assert spec.server.headers == {"X-Team": f"of-{team}"}


async def mounts(cluster: Cluster, namespace: str) -> DesiredMounts:
    """What the pods of a namespace are told to mount, once they are told."""
    async with asyncio.timeout(90):
        while (secret := await cluster.get(SECRET, namespace, "mcp-proxy-default-mounts")) is None:
            await asyncio.sleep(0.1)
    return unpack([base64.b64decode(secret["data"][part_key(0)])])


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
