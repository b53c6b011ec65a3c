"""A namespaced release can do nothing elsewhere, and one for all namespaces serves them all."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import pytest

from mcp_connections.operator.cluster import CONNECTION, DEPLOYMENT, EVENT, PROXY, SECRET, Cluster, ClusterError
from mcp_connections.operator.rights import NEEDED, missing
from tests.chart.helm import Helm, one
from tests.chart.observables import until
from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.cluster.plugin import CRDS
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import RELEASE, operator_kubeconfig, token_kubeconfig
from tests.operator.world import connection, proxy


def new_namespace(plane: ControlPlane) -> str:
    """A fresh namespace."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    plane.kubectl("create", "namespace", name)
    return name


async def test_a_namespaced_release_has_no_right_elsewhere(control_plane: ControlPlane, namespace: str) -> None:
    other = new_namespace(control_plane)
    control_plane.kubectl("-n", other, "create", "secret", "generic", "key", "--from-literal=key=secret")
    async with await Cluster.connect(operator_kubeconfig(control_plane, namespace)) as client:
        assert await missing(client, NEEDED, namespace) == []
        for elsewhere in (other, "kube-system", "default", None):
            assert await missing(client, NEEDED, elsewhere) == [*NEEDED]
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": other}}
        body = proxy() | {"metadata": {"name": "default", "namespace": other}}
        for attempt in (
            client.get(SECRET, other, "key"),
            client.list_all(SECRET, other),
            client.list_all(SECRET, None),
            client.list_all(CONNECTION, other),
            client.apply(PROXY, body),
            client.apply_status(PROXY, body),
            client.create(EVENT, event),
            client.merge(SECRET, other, "key", {"data": {}}),
        ):
            with pytest.raises(ClusterError, match="forbidden") as refused:
                await attempt
            assert refused.value.status == 403


async def test_a_release_for_all_namespaces_has_every_right_in_each_and_serves_them(tmp_path: Path) -> None:
    """With an API server of its own: it would serve what other tests left behind."""
    plane = ControlPlane(find_or_prepare(), tmp_path / "plane")
    plane.start()
    try:
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        home, *others = (new_namespace(plane) for _ in range(3))
        kubeconfig = cluster_wide_kubeconfig(plane, home, tmp_path)
        both = {"apiVersion": "v1", "kind": "List", "items": [proxy(), connection("notes", "http://127.0.0.1:9/mcp")]}
        for served in others:
            plane.kubectl("-n", served, "apply", "-f", "-", input=json.dumps(both))
        async with await Cluster.connect(kubeconfig) as client:
            assert await missing(client, NEEDED, None) == []
            async with OperatorProcess(None, kubeconfig, tmp_path / "log"):
                for served in others:
                    await until(lambda: exists(client, served))  # noqa: B023  (awaited before the next one)
    finally:
        await asyncio.to_thread(plane.stop)

    assert "lacks a right" not in (tmp_path / "log").read_text()


def cluster_wide_kubeconfig(plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """Credentials of the operator of a release for all namespaces."""
    values = {"watchAllNamespaces": True, "proxy": {"create": False}}
    objects = Helm("helm4", folder / "helm").objects(values, release=RELEASE, namespace=namespace)
    granted = [each for each in objects if each["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")]
    assert len(granted) == 3
    plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": granted}))
    return token_kubeconfig(plane, namespace, one(objects, "ServiceAccount")["metadata"]["name"])


async def exists(client: Cluster, namespace: str) -> bool:
    """Whether the proxy of a namespace has its pods."""
    return await client.get(DEPLOYMENT, namespace, "mcp-proxy-default") is not None


def test_two_releases_of_one_name_share_no_object_of_the_cluster(tmp_path: Path) -> None:
    helm = Helm("helm4", tmp_path)
    names = [
        one(helm.objects({"watchAllNamespaces": True}, namespace=namespace), kind)["metadata"]["name"]
        for namespace in ("red", "blue")
        for kind in ("ClusterRole", "ClusterRoleBinding")
    ]
    assert names == ["red-mcp-mcp-connections"] * 2 + ["blue-mcp-mcp-connections"] * 2
