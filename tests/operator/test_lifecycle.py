"""The main job on a real API server: apply a connection, call its tools, change it, take it away."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from mcp_connections.operator.cluster import CONNECTION, DEPLOYMENT, EVENT, POD, PROXY, SECRET, SERVICE
from mcp_connections.operator.mount_secrets import part_key, unpack
from tests.backends.scripted import ScriptedBackend
from tests.operator.backend import Backend
from tests.operator.world import TIMEOUT, World, condition, connection, proxy, stdio
from tests.proxy.client import Client as RawClient
from tests.proxy.running import http_client

ECHO = (sys.executable, str(Path(__file__).parents[1] / "cli" / "echo_backend.py"))


async def test_k8s_01_ready_is_true_only_with_a_live_session(world: World, backend: Backend) -> None:
    """Beside one that works: one on a closed port, and one that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        closed = f"http://127.0.0.1:{holder.getsockname()[1]}/mcp"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deaf = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        await world.apply(
            proxy(),
            connection("notes", backend.url),
            connection("closed", closed),
            connection("silent", deaf, policy={"timeouts": {"request": "1s"}}),
        )
        live = await world.until_ready("notes")
        await _is_served(world, live)
        since = {}
        for name, reason in (("closed", "Unreachable"), ("silent", "Timeout")):
            down = await world.until_condition(name, "Ready", "False", reason)
            assert down["status"].get("catalog", {}).get("tools", 0) == 0
            since[name] = condition(down, "Ready")["lastTransitionTime"]
        assert await world.tools() == ["notes_echo", "notes_wait"]

        # What happens later is another observation of the same state.
        await asyncio.sleep(1.1)  # transition times have whole seconds
        await world.patch("closed", {"metadata": {"edited": "once"}})
        down = await world.until_condition("closed", "Ready", "False", "Unreachable")
        assert down["status"]["observedGeneration"] == down["metadata"]["generation"] == 2
        for name, reason in (("closed", "Unreachable"), ("silent", "Timeout")):
            down = await world.connection(name)
            assert (condition(down, "Ready")["status"], condition(down, "Ready")["reason"]) == ("False", reason)
            assert condition(down, "Ready")["lastTransitionTime"] == since[name]
            events = await world.cluster.list_all(EVENT, world.namespace, field_selector=f"involvedObject.name={name}")
            assert {event["reason"] for event in events} == {reason}
    again = await world.connection("notes")
    assert again["status"]["conditions"] == live["status"]["conditions"]
    endpoint = await world.until_programmed()
    assert endpoint["status"]["endpoint"] == f"http://mcp-proxy-default.{world.namespace}.svc:8000/mcp"
    assert endpoint["status"]["connections"] == {"total": 3, "mounted": 3, "ready": 1}


async def _is_served(world: World, live: dict[str, Any]) -> None:
    """The status of ``notes`` is that of one that serves two tools, and they can be called."""
    assert await world.call("notes_echo", text="hello") == "hello"
    assert live["status"]["observedGeneration"] == live["metadata"]["generation"]
    assert live["status"]["catalog"]["tools"] == 2
    assert live["status"]["mount"]["replicas"] == 1
    assert live["status"]["mount"]["prefix"] == "notes"
    assert [each["type"] for each in live["status"]["conditions"]] == ["Ready", "Accepted", "Mounted"]
    assert "finalizers" not in live["metadata"]
    events = await world.cluster.list_all(EVENT, world.namespace, field_selector="involvedObject.name=notes")
    assert [(event["type"], event["reason"]) for event in events] == [("Normal", "Ready")]


async def test_an_edit_makes_a_new_mount_and_retires_the_old_one(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    before = await world.until_ready("notes")

    await world.patch("notes", {"prefix": "memo"})
    after = await world.until(
        CONNECTION,
        "notes",
        lambda live: [each["state"] for each in live["status"].get("retiredMounts", ())] == ["Closed"],
        what="a closed retired mount",
    )

    assert await world.tools() == ["memo_echo", "memo_wait"]
    retired = after["status"]["retiredMounts"][0]
    assert retired["reason"] == "Changed"
    assert retired["fingerprint"] == before["status"]["mount"]["fingerprint"]
    assert after["status"]["mount"]["fingerprint"] != retired["fingerprint"]


async def test_a_disabled_connection_is_left_alone_until_it_is_enabled(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")

    await world.patch("notes", {"enabled": False})
    await world.until_condition("notes", "Mounted", "False", "Disabled")
    assert await world.tools() == []
    live = await world.connection("notes")
    assert condition(live, "Ready")["reason"] == "Disabled"
    assert [each["reason"] for each in live["status"]["retiredMounts"]] == ["Disabled"]
    requests = backend.requests
    await world.apply(connection("other", backend.url, enabled=False))
    await world.until_condition("other", "Mounted", "False", "Disabled")
    assert backend.requests == requests

    await world.patch("notes", {"enabled": True})
    await world.until_ready("notes")
    assert await world.call("notes_echo", text="again") == "again"


async def test_k8s_04_a_deleted_connection_goes_at_once_and_nothing_of_it_is_left(
    world: World, backend: Backend
) -> None:
    deleted = ScriptedBackend()
    async with deleted.serving(), http_client() as http:
        await world.apply(proxy(), connection("notes", deleted.url), connection("kept", backend.url))
        await world.until_ready("kept")
        gone = await world.until_ready("notes")
        client = RawClient(http, await world.endpoint())
        await client.initialize()
        await client.listen()
        assert (await client.call("notes_bump")).text == "1"

        await world.kubectl("delete", "mcpc", "notes", "--timeout=20s")

        await _closed_and_reported(world, gone)
        await client.hear("notifications/tools/list_changed")
        assert await client.names() == ["kept_echo", "kept_wait"]
        assert (await client.call("notes_bump")).error["code"] == -32602
        assert deleted.live == []
        await client.aclose()
    secret = await world.cluster.get(SECRET, world.namespace, "mcp-proxy-default-mounts")
    assert secret is not None
    desired = unpack([base64.b64decode(secret["data"][part_key(0)])])
    assert [spec.connection.name for spec in desired.mounts] == ["kept"]


async def _closed_and_reported(world: World, gone: dict[str, Any]) -> None:
    """Wait until the McpProxy tells that the one mount of a deleted connection is closed."""

    def is_reported(live: dict[str, object]) -> bool:
        status = live["status"]
        assert isinstance(status, dict)
        retired = status.get("retiredMounts", ())
        return [(each["connection"]["uid"], each["reason"], each["state"]) for each in retired] == [
            (gone["metadata"]["uid"], "Removed", "Closed")
        ]

    await world.until(PROXY, "default", is_reported, what="a closed retired mount")


async def test_k8s_04_a_connection_deleted_and_created_again_at_once_is_a_new_one(
    world: World, backend: Backend
) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    first = await world.until_ready("notes")

    await world.kubectl("delete", "mcpc", "notes", "--wait=true")
    await world.apply(connection("notes", backend.url, prefix="memo"))
    second = await world.until_ready("notes")

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "retiredMounts" not in second["status"] or second["status"]["retiredMounts"] == []
    assert await world.tools() == ["memo_echo", "memo_wait"]


async def test_a_rotated_secret_reaches_the_backend_without_a_restart(world: World) -> None:
    async with Backend(token="first") as backend:
        header = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "token", "key": "header"}}}
        await world.apply(proxy(), connection("notes", backend.url, http={"headers": [header]}))
        await world.until_condition("notes", "Accepted", "False", "SecretNotFound")

        await world.kubectl("create", "secret", "generic", "token", "--from-literal=header=Bearer first")
        await world.until_ready("notes")
        assert await world.call("notes_echo", text="accepted") == "accepted"
        pod = world.kubelet.ready_pods[0].name

        backend.token = "second"
        with pytest.raises(MCPError, match="Unauthorized"):
            await world.call("notes_echo", text="refused")
        secret = {"stringData": {"header": "Bearer second"}}
        await world.kubectl("patch", "secret", "token", "-p", json.dumps(secret))
        await world.until(
            CONNECTION,
            "notes",
            lambda live: (
                len(live["status"].get("retiredMounts", ())) == 1 and condition(live, "Ready")["status"] == "True"
            ),
            what="a new mount",
        )

        assert await world.call("notes_echo", text="accepted") == "accepted"
        assert [each.name for each in world.kubelet.ready_pods] == [pod]
        assert world.kubelet.ready_pods[0].restarts == 0
        shown = await world.kubectl("get", "mcpc,mcpp,events,deployments", "-o", "yaml")
        assert "Bearer second" not in shown.stdout
        assert "Bearer" not in world.operator.log.read_text()


async def test_the_younger_of_two_equal_prefixes_waits_until_the_older_goes(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("first", backend.url, prefix="same"))
    await world.until_ready("first")
    await asyncio.sleep(1.1)  # creation times have whole seconds
    await world.apply(connection("second", backend.url, prefix="same"))

    refused = await world.until_condition("second", "Accepted", "False", "PrefixConflict")
    message = condition(refused, "Accepted")["message"]
    assert "first" in message
    assert "same" in message
    assert condition(await world.connection("first"), "Ready")["status"] == "True"

    await world.kubectl("delete", "mcpc", "first")
    await world.until_ready("second")
    assert await world.tools() == ["same_echo", "same_wait"]


async def test_a_connection_without_its_proxy_says_so_and_is_served_once_there_is_one(
    world: World, backend: Backend
) -> None:
    await world.apply(connection("notes", backend.url))
    refused = await world.until_condition("notes", "Accepted", "False", "ProxyNotFound")
    assert "default" in condition(refused, "Accepted")["message"]

    await world.apply(proxy())
    await world.until_ready("notes")


async def test_a_connection_moves_from_one_proxy_to_another(world: World, backend: Backend) -> None:
    await world.apply(proxy("blue"), proxy("green"), connection("notes", backend.url, proxyRef={"name": "blue"}))
    await world.until_ready("notes")

    await world.patch("notes", {"proxyRef": {"name": "green"}})
    await world.until_ready("notes")
    await world.until(
        PROXY, "blue", lambda live: live["status"].get("connections", {}).get("total") == 0, what="no connection"
    )

    by_proxy = {}
    for pod in world.kubelet.ready_pods:
        async with Client(pod.url, timeout=TIMEOUT) as client:
            by_proxy[pod.name.split("-")[2]] = sorted(tool.name for tool in await client.list_tools())
    assert by_proxy == {"blue": [], "green": ["notes_echo", "notes_wait"]}


async def test_k8s_02_status_follows_a_backend_that_comes_goes_and_comes_again(world: World) -> None:
    """Nobody edits anything. Tools stay listed for the removal grace, and a call says what is the matter."""
    backend = Backend()
    await backend.up()
    await backend.down()
    brief = connection("brief", backend.url, catalog={"removalGrace": "1s"})
    notes = connection("notes", backend.url, catalog={"removalGrace": "10m"})
    await world.apply(proxy(), notes, brief)
    await world.until_condition("notes", "Ready", "False", "Unreachable")

    await backend.up()
    up = await world.until_ready("notes")
    await world.until_ready("brief")
    since = condition(up, "Ready")["lastTransitionTime"]

    await backend.down()
    with pytest.raises(MCPError, match=r"notes is unavailable \(Unreachable\)"):
        await world.call("notes_echo", text="lost")
    await world.until_condition("notes", "Ready", "False", "Unreachable")
    await world.until_condition("brief", "Ready", "False", "Unreachable")
    await world.until_tools(["notes_echo", "notes_wait"])
    await backend.up()
    again = await world.until_ready("notes")
    await world.until_ready("brief")
    assert await world.tools() == ["brief_echo", "brief_wait", "notes_echo", "notes_wait"]
    assert again["metadata"]["generation"] == 1
    assert condition(again, "Ready")["lastTransitionTime"] >= since
    assert await world.call("notes_echo", text="back") == "back"
    await backend.down()


async def test_a_call_in_flight_survives_changes_to_other_connections(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")

    async with Client(await world.endpoint(), timeout=TIMEOUT) as client:
        call = asyncio.create_task(client.call_tool("notes_wait", {"seconds": 5}))
        for number in range(4):
            await world.apply(connection("other", backend.url, prefix=f"other{number}"))
            await world.until_ready("other")
        assert (await call).data == "done"
    live = await world.connection("notes")
    assert live["status"].get("retiredMounts", []) == []


async def test_every_replica_gets_every_change(world: World, backend: Backend) -> None:
    await world.apply(proxy(replicas=2), connection("notes", backend.url))
    await world.until(
        CONNECTION, "notes", lambda live: live["status"].get("mount", {}).get("replicas") == 2, what="two replicas"
    )
    pods = await world.until_pods(2)

    await world.apply(connection("memos", backend.url))
    await world.until(
        CONNECTION, "memos", lambda live: live["status"].get("mount", {}).get("replicas") == 2, what="two replicas"
    )
    await world.until_ready("memos")

    assert [pod.name for pod in world.kubelet.ready_pods] == pods
    for pod in world.kubelet.ready_pods:
        async with Client(pod.url, timeout=TIMEOUT) as client:
            names = sorted(tool.name for tool in await client.list_tools())
        assert names == ["memos_echo", "memos_wait", "notes_echo", "notes_wait"]


async def test_ses_09_one_session_works_through_both_replicas(world: World, backend: Backend) -> None:
    await world.apply(proxy(replicas=2), connection("notes", backend.url))
    await world.until(
        CONNECTION, "notes", lambda live: live["status"].get("mount", {}).get("replicas") == 2, what="two replicas"
    )
    await world.until_pods(2)
    one, two = world.kubelet.ready_pods
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as http:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        async with http.post(one.url, json=hello, headers=headers) as response:
            headers["mcp-session-id"] = response.headers["mcp-session-id"]
        for number in range(1, 21):
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
            async with http.post((one, two)[number % 2].url, json=call, headers=headers) as response:
                assert response.status == 200, await response.text()
                assert len((await response.json())["result"]["tools"]) == 2
        headers["mcp-session-id"] = "unknown"
        call = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}
        async with http.post(one.url, json=call, headers=headers) as response:
            assert response.status == 404


async def test_a_strict_proxy_is_available_only_while_every_connection_is_ready(world: World, backend: Backend) -> None:
    nobody = Backend()
    await nobody.up()
    await nobody.down()
    await world.apply(proxy(startPolicy="Strict"), connection("notes", backend.url), connection("broken", nobody.url))
    await world.until(
        PROXY,
        "default",
        lambda live: condition(live, "Available").get("reason") == "ConnectionsNotReady",
        what="Available=False",
    )

    # A pod that is not ready has to learn of the correction all the same.
    await world.patch("broken", {"transport": {"http": {"url": backend.url}}})
    await world.until_ready("broken")
    await world.until(
        PROXY, "default", lambda live: condition(live, "Available").get("status") == "True", what="Available=True"
    )


async def test_k8s_14_large_connections_are_served_and_inline_values_are_shown_nowhere(
    world: World, backend: Backend
) -> None:
    """Neither the spec nor a value of it is copied into an annotation, where 256 KiB are the limit."""
    header = {"name": "X-Inline", "value": "do-not-show-this"}
    large = {"padding": "x" * 200_000}
    await world.apply(proxy(stdio={"allowed": True}))
    env = [{"name": "INLINE", "value": header["value"]}]
    env += [{"name": f"LONG_{number}", "value": "x" * 32_000} for number in range(6)]
    for manifest in (
        connection("notes", backend.url, metadata=large, http={"headers": [header]}),
        stdio("command", *ECHO, env=env),
    ):
        await world.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(manifest))

    live = [await world.until_ready("notes"), await world.until_ready("command")]

    assert await world.call("notes_echo", text="large") == "large"
    assert "pid" in await world.call_text("command_echo")
    shown = json.dumps([each["status"] for each in live])
    shown += (await world.kubectl("get", "events,mcpp", "-o", "yaml")).stdout
    shown += world.operator.log.read_text() + "".join(pod.log.read_text() for pod in world.kubelet.pods.values())
    assert "do-not-show-this" not in shown
    assert all("annotations" not in each["metadata"] for each in live)
    for kind in (DEPLOYMENT, SECRET, SERVICE, POD):
        for each in await world.cluster.list_all(kind, world.namespace):
            noted = json.dumps(each["metadata"].get("annotations", {}))
            assert len(noted) < 2000, f"{kind.kind} {each['metadata']['name']}: {noted[:200]}"
            assert "do-not-show-this" not in noted
