"""Applying sends what changed, keeps the admin token, and takes over nothing that is not its own."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mcp_connections.api.parsing import parse_proxy
from mcp_connections.api.proxy import McpProxy
from mcp_connections.operator.applying import Applier
from mcp_connections.operator.cluster import DEPLOYMENT, PROXY, SECRET, SERVICE, Cluster, Kind, Object
from mcp_connections.operator.mount_secrets import part_key, unpack
from mcp_connections.operator.owned_objects import Refused
from tests.operator.resources import desired
from tests.operator.world import proxy

NAME = "mcp-proxy-default"
IMAGE = "registry.example/mcp-connections:1"


class Watched(Applier):
    """Counts what is sent."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent: list[str] = []
        sent = self.sent

        class Counting(Cluster):
            async def apply(self, kind: Kind, body: Object) -> Object:
                sent.append(f"{kind.kind} {body['metadata']['name']}")
                return await cluster.apply(kind, body)

        super().__init__(Counting(cluster._api), IMAGE)  # noqa: SLF001  (the same connections, counted)


async def create_proxy(cluster: Cluster, namespace: str, **spec: Any) -> McpProxy:
    manifest = proxy(**spec)
    manifest["metadata"]["namespace"] = namespace
    return parse_proxy(await cluster.create(PROXY, manifest), strict=False)


async def test_everything_is_sent_once_and_then_only_what_changed(cluster: Cluster, namespace: str) -> None:
    mcp_proxy = await create_proxy(cluster, namespace)
    applier = Watched(cluster)

    await applier.apply(mcp_proxy, desired("a"))
    first = list(applier.sent)
    await applier.apply(mcp_proxy, desired("a"))
    idle = applier.sent[len(first) :]
    await applier.apply(mcp_proxy, desired("a", "b"))

    assert first == [
        f"Secret {NAME}-admin",
        f"Secret {NAME}-mounts",
        f"ServiceAccount {NAME}",
        f"Service {NAME}",
        f"Deployment {NAME}",
    ]
    assert idle == []
    assert applier.sent[len(first) :] == [f"Secret {NAME}-mounts"]
    stored = await cluster.get(SECRET, namespace, f"{NAME}-mounts")
    assert stored is not None
    assert unpack([base64.b64decode(stored["data"][part_key(0)])]) == desired("a", "b")


async def test_the_token_is_made_once_and_survives_a_restart(cluster: Cluster, namespace: str) -> None:
    mcp_proxy = await create_proxy(cluster, namespace)

    first = await Applier(cluster, IMAGE).apply(mcp_proxy, desired())
    before = await cluster.get(SECRET, namespace, f"{NAME}-admin")
    second = await Applier(cluster, IMAGE).apply(mcp_proxy, desired())
    after = await cluster.get(SECRET, namespace, f"{NAME}-admin")

    assert first == second
    assert before == after


async def test_what_somebody_changed_is_put_right(cluster: Cluster, namespace: str) -> None:
    mcp_proxy = await create_proxy(cluster, namespace, image="right:1")
    applier = Watched(cluster)
    await applier.apply(mcp_proxy, desired("a"))
    wrong = {"spec": {"template": {"spec": {"serviceAccountName": "another"}}}}
    await cluster.merge(DEPLOYMENT, namespace, NAME, wrong)
    applier.sent.clear()

    await applier.apply(mcp_proxy, desired("a"))

    deployment = await cluster.get(DEPLOYMENT, namespace, NAME)
    assert deployment is not None
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == NAME
    assert applier.sent == [f"Deployment {NAME}"]


@pytest.mark.parametrize("kind", [SERVICE, SECRET])
async def test_somebody_elses_object_is_left_alone(cluster: Cluster, namespace: str, kind: Kind) -> None:
    mcp_proxy = await create_proxy(cluster, namespace)
    name = NAME if kind is SERVICE else f"{NAME}-mounts"
    body: Object = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "namespace": namespace}}
    if kind is SERVICE:
        body["spec"] = {"ports": [{"port": 80}]}
    theirs = await cluster.create(kind, body)

    with pytest.raises(Refused, match=f"{kind.kind} {namespace}/{name} already .* rename it"):
        await Applier(cluster, IMAGE).apply(mcp_proxy, desired())

    assert await cluster.get(kind, namespace, name) == {**theirs}


async def test_a_proxy_that_was_created_again_gets_the_objects_of_its_predecessor(
    cluster: Cluster, namespace: str
) -> None:
    first = await create_proxy(cluster, namespace)
    token = await Applier(cluster, IMAGE).apply(first, desired())
    second = first.model_copy(update={"metadata": first.metadata.model_copy(update={"uid": "another-uid"})})

    assert await Applier(cluster, IMAGE).apply(second, desired()) == token

    deployment = await cluster.get(DEPLOYMENT, namespace, NAME)
    assert deployment is not None
    assert [owner["uid"] for owner in deployment["metadata"]["ownerReferences"]] == ["another-uid"]


async def test_what_the_api_server_refuses_is_told_with_its_words(cluster: Cluster, namespace: str) -> None:
    template = {"spec": {"containers": [{"name": "proxy", "image": 7}]}}
    mcp_proxy = await create_proxy(cluster, namespace, podTemplate=template)

    with pytest.raises(Refused, match=f"refuses the Deployment {NAME} .*image"):
        await Applier(cluster, IMAGE).apply(mcp_proxy, desired())
