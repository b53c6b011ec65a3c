"""The client against a real API server: pages, server-side apply, and errors that say what was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcp_connections.operator import cluster as module
from mcp_connections.operator.cluster import CONFIG_MAP, CONNECTION, DEPLOYMENT, SECRET, Cluster, ClusterError, Object
from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.operator.world import connection


def config_map(namespace: str, name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {"kind": name[0]}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_a_list_is_read_page_by_page(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    names = [f"a{number}" for number in range(5)] + ["b0"]
    for name in names:
        await cluster.create(CONFIG_MAP, config_map(namespace, name))

    everything = await cluster.list_all(CONFIG_MAP, namespace)
    selected = await cluster.list_all(CONFIG_MAP, namespace, label_selector="kind=a")
    one = await cluster.list_all(CONFIG_MAP, namespace, field_selector="metadata.name=b0")

    assert [each["metadata"]["name"] for each in everything] == names
    assert {(each["apiVersion"], each["kind"]) for each in everything} == {("v1", "ConfigMap")}
    assert len(selected) == 5
    assert [each["metadata"]["name"] for each in one] == ["b0"]


async def test_what_is_not_there_is_none(cluster: Cluster, namespace: str) -> None:
    assert await cluster.get(CONFIG_MAP, namespace, "absent") is None
    assert await cluster.list_all(DEPLOYMENT, namespace) == []


async def test_apply_creates_changes_and_gives_up_fields(cluster: Cluster, namespace: str) -> None:
    created = await cluster.apply(CONFIG_MAP, config_map(namespace, "a", one="1", two="2"))
    await cluster.merge(CONFIG_MAP, namespace, "a", {"data": {"foreign": "theirs"}})

    changed = await cluster.apply(CONFIG_MAP, config_map(namespace, "a", one="changed"))

    assert created["data"] == {"one": "1", "two": "2"}
    assert changed["data"] == {"one": "changed", "foreign": "theirs"}


async def test_an_apply_that_changes_nothing_leaves_the_version(cluster: Cluster, namespace: str) -> None:
    first = await cluster.apply(CONFIG_MAP, config_map(namespace, "a", one="1"))

    second = await cluster.apply(CONFIG_MAP, config_map(namespace, "a", one="1"))

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_status_of_an_older_version_is_refused(cluster: Cluster, namespace: str) -> None:
    manifest = connection("a", "http://a.example/mcp")
    manifest["metadata"]["namespace"] = namespace
    live = await cluster.create(CONNECTION, manifest)
    body = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": "a", "namespace": namespace, "resourceVersion": live["metadata"]["resourceVersion"]},
        "status": {"observedGeneration": 1},
    }
    written = await cluster.apply_status(CONNECTION, body)
    assert written["status"]["observedGeneration"] == 1

    with pytest.raises(ClusterError) as error:
        await cluster.apply_status(CONNECTION, body | {"status": {"observedGeneration": 2}})
    assert error.value.status == 409


async def test_a_refusal_names_the_field(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ClusterError, match=r"PATCH /api/v1/.*/configmaps/a: .*data\[b c\]") as error:
        await cluster.apply(CONFIG_MAP, config_map(namespace, "a", **{"b c": "1"}))

    assert error.value.is_refusal
    assert error.value.status == 422


async def test_an_api_server_that_is_gone_is_an_error_that_may_pass(tmp_path: Path) -> None:
    plane = ControlPlane(find_or_prepare(), tmp_path)
    plane.start()
    async with await Cluster.connect(plane.kubeconfig) as client:
        await client.list_all(SECRET, "default")
        with pytest.raises(ClusterError, match=r"does not serve mcpconnections and mcpproxies .*install the CRDs"):
            await client.check_resources()
        await asyncio.to_thread(plane.stop)

        with pytest.raises(ClusterError, match="GET /api/v1/namespaces/default/secrets") as error:
            await client.list_all(SECRET, "default")
    assert not error.value.is_refusal


async def test_resources_that_are_served_pass_the_check(cluster: Cluster) -> None:
    await cluster.check_resources()


async def test_no_credentials_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="set KUBECONFIG"):
        await Cluster.connect(tmp_path / "absent")
