"""Everything a pass decides upon is read, whatever state it is in."""

from __future__ import annotations

import asyncio
import base64

import pytest

from mcp_connections.api.connection import McpConnection
from mcp_connections.mounts.candidates import InvalidConnection
from mcp_connections.operator.cluster import CONFIG_MAP, CONNECTION, PROXY, SECRET, Cluster
from mcp_connections.operator.gather import MAX_GETS, candidate_of, gather, read_data
from mcp_connections.operator.references import References
from mcp_connections.operator.trigger import ProxyKey
from tests.operator.world import connection, proxy


async def create_secret(cluster: Cluster, namespace: str, name: str, value: bytes) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"key": base64.b64encode(value).decode()},
    }
    await cluster.create(SECRET, body)


async def test_a_proxy_is_read_with_its_connections_and_their_data(cluster: Cluster, namespace: str) -> None:
    header = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}}
    authorities = {"configMapKeyRef": {"name": "authorities", "key": "ca.crt"}}
    manifests = [
        proxy(),
        proxy("other"),
        connection("a", "https://a.example/mcp", http={"headers": [header], "caBundleRef": authorities}),
        connection("b", "http://b.example/mcp", proxyRef={"name": "other"}),
    ]
    for manifest in manifests:
        manifest["metadata"]["namespace"] = namespace
        await cluster.create(PROXY if manifest["kind"] == "McpProxy" else CONNECTION, manifest)
    await create_secret(cluster, namespace, "token", b"Bearer \xff")
    await create_secret(cluster, namespace, "unrelated", b"x")
    config_map = {"metadata": {"name": "authorities", "namespace": namespace}, "data": {"ca.crt": "PEM"}}
    await cluster.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **config_map})
    references, key = References(), ProxyKey(namespace, "default")

    facts = await gather(cluster, key, references)

    assert facts.proxy is not None
    assert facts.proxy.metadata.name == "default"
    assert [each.live["metadata"]["name"] for each in facts.connections] == ["a"]
    assert facts.secret_data == {
        ("Secret", namespace, "token"): {"key": b"Bearer \xff"},
        ("ConfigMap", namespace, "authorities"): {"ca.crt": b"PEM"},
    }
    assert references.users(("Secret", namespace, "token")) == {key}
    assert references.users(("ConfigMap", namespace, "authorities")) == {key}


async def test_nothing_is_there_when_nothing_is(cluster: Cluster, namespace: str) -> None:
    facts = await gather(cluster, ProxyKey(namespace, "default"), References())

    assert facts.is_nothing
    assert facts.proxy is None


@pytest.mark.parametrize("count", [3, MAX_GETS + 4])
async def test_few_or_many_secrets_are_read_alike(cluster: Cluster, namespace: str, count: int) -> None:
    names = [f"s{number}" for number in range(count)]
    await asyncio.gather(*(create_secret(cluster, namespace, name, name.encode()) for name in names))
    await create_secret(cluster, namespace, "unrelated", b"x")

    data = await read_data(cluster, namespace, [("Secret", namespace, name) for name in [*names, "absent"]])

    assert data == {("Secret", namespace, name): {"key": name.encode()} for name in names}


def test_a_connection_that_cannot_be_read_is_still_one() -> None:
    metadata = {
        "name": "a",
        "namespace": "team",
        "uid": "u",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
    }
    live = {"apiVersion": "mcp-connections.io/v1alpha1", "kind": "McpConnection", "metadata": metadata, "spec": {}}

    candidate = candidate_of(live)

    assert isinstance(candidate, InvalidConnection)
    assert str(candidate.connection) == "team/a"
    assert candidate.generation == 3
    assert "transport" in candidate.message


def test_a_field_that_this_version_does_not_know_does_no_harm() -> None:
    live = connection("a", "http://a.example/mcp", fromTheFuture={"x": 1})
    live["metadata"] |= {"namespace": "team", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}

    assert isinstance(candidate_of(live), McpConnection)
