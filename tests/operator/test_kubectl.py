"""What a user sees through kubectl."""

from __future__ import annotations

import asyncio

from mcp_connections.operator.cluster import EVENT, PROXY, Object
from tests.backends.scripted import ScriptedBackend
from tests.operator.backend import Backend
from tests.operator.world import World, condition, connection, proxy
from tests.proxy.client import Client
from tests.proxy.running import http_client


async def test_k8s_23_columns_and_wait(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url, prefix="memo"))

    waited = await world.kubectl("wait", "--for=condition=Ready", "mcpc/notes", "--timeout=80s")
    assert "condition met" in waited.stdout
    await world.kubectl("wait", "--for=condition=Available", "mcpp/default", "--timeout=80s")
    await world.kubectl("wait", "--for=condition=Programmed", "mcpp/default", "--timeout=80s")

    header, row = (await world.kubectl("get", "mcpc", "notes")).stdout.splitlines()
    assert header.split() == ["NAME", "PREFIX", "TRANSPORT", "TOOLS", "READY", "REASON", "AGE"]
    assert row.split()[:6] == ["notes", "memo", "http", "2", "True", "Ready"]

    header, row = (await world.kubectl("get", "mcpc", "notes", "-o", "wide")).stdout.splitlines()
    assert header.split()[7:] == ["URL", "PROTOCOL", "FINGERPRINT", "MESSAGE"]
    assert backend.url in row
    assert "Serving 2 tools" in row

    both = (await world.kubectl("get", "mcp")).stdout
    assert "mcpconnection.mcp-connections.io/notes" in both
    assert "mcpproxy.mcp-connections.io/default" in both


async def test_k8s_23_a_fresh_connection_explains_itself_before_any_operator_saw_it(
    world: World, backend: Backend
) -> None:
    await world.operator.stop()

    await world.apply(connection("notes", backend.url))

    row = (await world.kubectl("get", "mcpc", "notes", "--no-headers")).stdout.split()
    assert row[:3] == ["notes", "Unknown", "Pending"]
    await world.operator.start()


async def test_k8s_23_there_is_something_to_see_until_the_last_moment(world: World) -> None:
    """Of one that a finalizer of somebody else keeps, and of one that goes at once while a call is still running."""
    backend = ScriptedBackend()
    gate = backend.gated_tool("slow")
    async with backend.serving(), http_client() as http:
        held = connection("held", backend.url)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await world.apply(proxy(drainTimeout="120s"), held, connection("plain", backend.url))
        first = await world.connection("held")
        assert [each["type"] for each in first["status"]["conditions"]] == ["Ready", "Accepted", "Mounted"]
        await world.until_ready("held")
        await world.until_ready("plain")
        client = Client(http, await world.endpoint())
        await client.initialize()
        calls = [asyncio.create_task(client.call(f"{name}_slow")) for name in ("held", "plain")]
        await gate.arrived(len(calls))

        await world.kubectl("delete", "mcpc", "plain", "--timeout=20s")
        await world.kubectl("delete", "mcpc", "held", "--wait=false")
        live = await world.until_condition("held", "Mounted", "False", "Draining")
        assert "deletionTimestamp" in live["metadata"]
        row = (await world.kubectl("get", "mcpc", "--no-headers")).stdout.split()
        assert row[:3] == ["held", "False", "Terminating"]
        served = await world.until(PROXY, "default", lambda live: len(retired(live)) == 2, what="two retired mounts")
        assert set(retired(served)) == {("held", "Removed", "Draining"), ("plain", "Removed", "Draining")}
        gate.open()
        for answer in await asyncio.gather(*calls):
            assert answer.text.startswith("passed")
        assert await client.names() == []

        live = await world.until_condition("held", "Mounted", "False", "Terminating")
    assert "metadata.finalizers" in condition(live, "Ready")["message"]
    events = await world.cluster.list_all(EVENT, world.namespace, field_selector="involvedObject.name=held")
    told = sorted((event["type"], event["reason"]) for event in events)  # a list is by name, not by time
    assert told == [("Normal", "Ready"), ("Normal", "Terminating")]
    await world.kubectl("patch", "mcpc", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await world.kubectl("wait", "--for=delete", "mcpc/held", "--timeout=20s")


def retired(live: Object) -> list[tuple[str, str, str]]:
    """What an McpProxy says of mounts that were taken out of service."""
    mounts = live["status"].get("retiredMounts", ())
    return [(each["connection"]["name"], each["reason"], each["state"]) for each in mounts]


async def test_events_tell_what_happened(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("first", backend.url, prefix="same"))
    await world.until_ready("first")
    await world.apply(connection("second", backend.url, prefix="same"))
    await world.until_condition("second", "Accepted", "False")

    described = (await world.kubectl("describe", "mcpc", "second")).stdout
    assert "Warning" in described
    assert "PrefixConflict" in described
    assert "mcp-connections-operator" in described
