"""What the operator owns of a workload, what it leaves to others, and what it says when it cannot have its way."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from mcp_connections.operator.cluster import DEPLOYMENT, PROXY, SECRET, SERVICE
from tests.operator.backend import Backend
from tests.operator.world import TIMEOUT, World, condition, connection, proxy

NAME = "mcp-proxy-default"


async def test_everything_is_owned_by_the_proxy_and_pods_do_not_change_with_the_mounts(
    world: World, backend: Backend
) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    owner = (await world.until_programmed())["metadata"]["uid"]
    objects = [
        await world.cluster.get(kind, world.namespace, name)
        for kind, name in ((DEPLOYMENT, NAME), (SERVICE, NAME), (SECRET, f"{NAME}-mounts"), (SECRET, f"{NAME}-admin"))
    ]
    assert all(each is not None for each in objects)
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in objects if each} == {owner}
    assert objects[0] is not None
    generation = objects[0]["metadata"]["generation"]

    await world.apply(connection("memos", backend.url))
    await world.until_ready("memos")

    deployment = await world.cluster.get(DEPLOYMENT, world.namespace, NAME)
    assert deployment is not None
    assert deployment["metadata"]["generation"] == generation
    mounts = await world.cluster.get(SECRET, world.namespace, f"{NAME}-mounts")
    assert mounts is not None
    assert objects[2] is not None
    assert mounts["data"] != objects[2]["data"]


async def test_foreign_fields_survive(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")

    await world.kubectl("scale", "deployment", NAME, "--replicas=2")
    await world.kubectl("rollout", "restart", f"deployment/{NAME}")
    await world.kubectl("label", "deployment", NAME, "team=ours")
    await world.apply(proxy(separator="."))
    await world.until(
        PROXY,
        "default",
        lambda live: (
            live["status"].get("observedGeneration") == live["metadata"]["generation"]
            and live["status"].get("replicas") == 2
            and condition(live, "Programmed")["status"] == "True"
        ),
        what="two pods with the new separator",
    )

    deployment = await world.cluster.get(DEPLOYMENT, world.namespace, NAME)
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 2
    assert "kubectl.kubernetes.io/restartedAt" in deployment["spec"]["template"]["metadata"]["annotations"]
    assert deployment["metadata"]["labels"]["team"] == "ours"
    assert await world.tools() == ["notes.echo", "notes.wait"]


async def test_a_deleted_deployment_comes_back(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = await world.cluster.get(DEPLOYMENT, world.namespace, NAME)
    assert before is not None

    await world.kubectl("delete", "deployment", NAME)

    await world.until(DEPLOYMENT, NAME, lambda live: live["metadata"]["uid"] != before["metadata"]["uid"])
    await world.until_ready("notes")


async def test_an_object_of_somebody_else_is_not_taken_over(world: World, backend: Backend) -> None:
    await world.kubectl("create", "service", "clusterip", NAME, "--tcp=80:80")

    await world.apply(proxy(), connection("notes", backend.url))

    live = await world.until(
        PROXY, "default", lambda live: condition(live, "Accepted").get("reason") == "ApplyFailed", what="ApplyFailed"
    )
    assert f"Service {world.namespace}/{NAME}" in condition(live, "Accepted")["message"]
    service = await world.cluster.get(SERVICE, world.namespace, NAME)
    assert service is not None
    assert service["spec"]["ports"][0]["port"] == 80
    assert "ownerReferences" not in service["metadata"]

    await world.kubectl("delete", "service", NAME)
    await world.apply(proxy(drainTimeout="20s"))
    await world.until_ready("notes")


async def test_a_pod_template_that_the_api_server_refuses_is_reported_and_can_be_corrected(
    world: World, backend: Backend
) -> None:
    broken = {"spec": {"containers": [{"name": "proxy", "imagePullPolicy": "Whenever"}]}}
    await world.apply(proxy(podTemplate=broken), connection("notes", backend.url))

    live = await world.until(
        PROXY, "default", lambda live: condition(live, "Accepted").get("reason") == "ApplyFailed", what="ApplyFailed"
    )
    assert "imagePullPolicy" in condition(live, "Accepted")["message"]

    sidecar = {"name": "sidecar", "image": "busybox", "ports": []}
    right = {"metadata": {"labels": {"team": "ours"}}, "spec": {"containers": [sidecar], "nodeSelector": {"a": "b"}}}
    await world.apply(proxy(podTemplate=right))
    await world.until_ready("notes")
    deployment = await world.cluster.get(DEPLOYMENT, world.namespace, NAME)
    assert deployment is not None
    template = deployment["spec"]["template"]
    assert [each["name"] for each in template["spec"]["containers"]] == ["proxy", "sidecar"]
    assert template["spec"]["nodeSelector"] == {"a": "b"}
    assert template["metadata"]["labels"]["team"] == "ours"


async def test_a_proxy_that_is_not_accepted_is_not_put_in_force(world: World, backend: Backend) -> None:
    auth = {"bearerTokenRef": {"name": "absent", "key": "token"}}
    await world.apply(proxy(auth=auth), connection("notes", backend.url))

    live = await world.until(
        PROXY,
        "default",
        lambda live: condition(live, "Accepted").get("reason") == "SecretNotFound",
        what="SecretNotFound",
    )

    assert "spec.auth.bearerTokenRef" in condition(live, "Accepted")["message"]
    assert await world.cluster.get(DEPLOYMENT, world.namespace, NAME) is None


async def test_a_deleted_proxy_leaves_its_connections_saying_so(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")

    await world.kubectl("delete", "mcpp", "default", "--timeout=30s")

    await world.until_condition("notes", "Accepted", "False", "ProxyNotFound")


async def test_a_thousand_events_make_few_passes(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = world.operator.log.read_text().count("statuses written")

    many = [connection(f"off{number:03}", backend.url, enabled=False) for number in range(200)]
    for batch in range(5):
        await world.kubectl(
            *("apply", "--server-side", "-f", "-"),
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": many[batch * 40 : batch * 40 + 40]}),
        )
    await world.until(
        PROXY, "default", lambda live: live["status"].get("connections", {}).get("total") == 201, what="201 connections"
    )
    await asyncio.sleep(2)

    passes = world.operator.log.read_text().count("statuses written") - before
    assert passes <= 40, "each event made a pass of its own"


async def test_the_endpoint_asks_for_the_token_of_a_secret_also_once_it_was_rotated(
    world: World, backend: Backend
) -> None:
    auth = {"bearerTokenRef": {"name": "clients", "key": "token"}}
    await world.apply(proxy(auth=auth), connection("notes", backend.url))
    await world.until(
        PROXY,
        "default",
        lambda live: condition(live, "Accepted").get("reason") == "SecretNotFound",
        what="SecretNotFound",
    )
    assert await world.cluster.get(DEPLOYMENT, world.namespace, NAME) is None

    await world.kubectl("create", "secret", "generic", "clients", "--from-literal=token=first-token-of-the-clients")
    await world.until_ready("notes")
    (pod,) = await world.until_pods(1)
    endpoint = await world.endpoint()
    assert await status_of(endpoint, "first-token-of-the-clients") == 200
    assert await status_of(endpoint, "another") == 401

    rotated = {"stringData": {"token": "second-token-of-the-clients"}}
    await world.kubectl("patch", "secret", "clients", "-p", json.dumps(rotated))
    async with asyncio.timeout(TIMEOUT):
        while await status_of(endpoint, "second-token-of-the-clients") != 200:
            await asyncio.sleep(0.1)

    assert await status_of(endpoint, "first-token-of-the-clients") == 401
    assert await world.until_pods(1) == [pod]


async def status_of(endpoint: str, token: str) -> int:
    """What a client with ``token`` gets for its first request."""
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession() as session, session.post(endpoint, json=initialize, headers=headers) as response:
        return response.status
