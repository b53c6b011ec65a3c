"""The operator is killed at random moments and started again: everything converges, with nobody's help."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import pytest

from mcp_connections.operator.cluster import CONNECTION, DEPLOYMENT, PROXY, SECRET, SERVICE, SERVICE_ACCOUNT
from tests.backends.scripted import ScriptedBackend
from tests.operator.backend import Backend
from tests.operator.rbac import RELEASE
from tests.operator.world import World, connection, proxy, stdio

ROUNDS = int(os.environ.get("KILLS", "6"))
"""Times that the operator is killed. ``KILLS=30 pytest -k k8s_17`` has it killed more often."""
CHURN = int(os.environ.get("CHURN", "20"))
"""Connections that are created and deleted twice. ``CHURN=100 pytest -k k8s_06`` has more of them."""
ECHO = (sys.executable, str(Path(__file__).parents[1] / "cli" / "echo_backend.py"))


@pytest.mark.parametrize(("seed", "longest"), [(1, 2.5), (2, 0.2)], ids=["any moment", "right after a change"])
async def test_k8s_17_killed_at_any_moment_it_converges(
    world: World, backend: Backend, seed: int, longest: float
) -> None:
    chance = random.Random(seed)  # noqa: S311  (a repeatable schedule)
    await world.apply(proxy(), connection("stable", backend.url))
    wanted: dict[str, str | None] = {}
    for number in range(ROUNDS):
        if longest < 1:
            await _at_work(world, number + 1)
        await _change(world, backend, chance, wanted, number)
        # From before the first watch event is handled until well after a pass; or while it still starts.
        await asyncio.sleep(chance.uniform(0, longest))
        await world.operator.kill()
        if chance.random() < 0.5:
            await _change(world, backend, chance, wanted, number + ROUNDS)
        await world.operator.start()

    for name, prefix in wanted.items():
        if prefix is None:
            await world.until_condition(name, "Mounted", "False", "Disabled")
        else:
            await world.until_ready(name)
    await world.until_ready("stable")
    live = await world.until_programmed()

    prefixes = ["stable", *(prefix for prefix in wanted.values() if prefix is not None)]
    assert await world.tools() == sorted(f"{prefix}_{tool}" for prefix in prefixes for tool in ("echo", "wait"))
    assert live["status"]["connections"]["total"] == len(wanted) + 1
    connections = await world.cluster.list_all(CONNECTION, world.namespace)
    assert all("finalizers" not in each["metadata"] for each in [*connections, live])
    assert all("deletionTimestamp" not in each["metadata"] for each in connections)
    counts = [
        len(await world.cluster.list_all(kind, world.namespace, label_selector="app.kubernetes.io/name=mcp-proxy"))
        for kind in (DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, SECRET)
    ]
    assert counts == [1, 1, 1, 2]


async def _at_work(world: World, starts: int) -> None:
    """Wait until the operator, started so many times, begins to watch."""
    async with asyncio.timeout(90):
        while world.operator.log.read_text().count("Serving ") < starts:
            await asyncio.sleep(0.05)


async def _change(
    world: World, backend: Backend, chance: random.Random, wanted: dict[str, str | None], number: int
) -> None:
    """Apply, edit, disable, enable or delete one of a few connections; ``wanted`` holds the prefix of each."""
    name = f"c{chance.randrange(3)}"
    match chance.choice(["apply", "apply", "disable", "delete"]):
        case "apply":
            wanted[name] = f"{name}v{number}"
            await world.apply(connection(name, backend.url, prefix=wanted[name], enabled=True))
        case "disable" if name in wanted:
            wanted[name] = None
            await world.patch(name, {"enabled": False})
        case "delete" if name in wanted:
            del wanted[name]
            await world.kubectl("delete", "mcpc", name, "--timeout=30s")


async def test_while_there_is_no_operator_pods_serve_and_restart_from_their_secrets(
    world: World, backend: Backend
) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    secret = await world.cluster.get(SECRET, world.namespace, "mcp-proxy-default-mounts")
    assert secret is not None
    await world.operator.kill()
    pod = world.kubelet.ready_pods[0]
    await world.kubelet.refresh()

    assert pod.process is not None
    pod.process.kill()
    await pod.process.wait()
    async with asyncio.timeout(60):
        while not (pod.restarts and pod.ready):
            await asyncio.sleep(0.05)

    assert await world.call("notes_echo", text="alone") == "alone"


async def test_k8s_17_changes_made_while_it_was_down_are_applied(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("edited", backend.url), connection("deleted", backend.url))
    await world.until_ready("edited")
    await world.until_ready("deleted")
    await world.operator.kill()

    await world.patch("edited", {"prefix": "changed"})
    await world.kubectl("delete", "mcpc", "deleted", "--timeout=30s")
    await world.apply(connection("added", backend.url))
    await world.kubectl("delete", "service", "mcp-proxy-default")
    await world.operator.start()

    await world.until_ready("edited")
    await world.until_ready("added")
    await world.until_programmed()
    assert await world.tools() == ["added_echo", "added_wait", "changed_echo", "changed_wait"]
    assert await world.cluster.get(SERVICE, world.namespace, "mcp-proxy-default") is not None


async def test_k8s_06_what_is_deleted_is_gone_whatever_becomes_of_the_operator(world: World) -> None:
    """Created and deleted while statuses are being written, and the operator killed in the middle of cleaning up."""
    names = [f"c{number}" for number in range(CHURN)]
    backend = ScriptedBackend()
    async with backend.serving():
        manifests = [connection(name, backend.url) for name in names]
        await world.apply(proxy(stdio={"allowed": True}), connection("stable", backend.url))
        await world.apply(*manifests, stdio("command", *ECHO))
        await world.until_ready("command")
        deleting = asyncio.create_task(world.kubectl("delete", "mcpc", *names, "command", "--timeout=60s"))
        await asyncio.sleep(0.2)
        await world.operator.kill()
        await deleting  # nobody else is needed for it
        await world.operator.start()
        await world.until_no_bridge("command")
        await world.until_tools(["stable_bump", "stable_echo"])

        await world.apply(*manifests)
        await world.until_ready(names[0])
        await world.kubectl("delete", "mcpc", *names, "--timeout=60s")
        await world.operator.kill()
        await world.operator.start()
        await world.until_tools(["stable_bump", "stable_echo"])
        await world.until_ready("stable")
        live = await world.until(
            PROXY, "default", lambda live: live["status"]["connections"]["total"] == 1, what="one connection"
        )
        left = await world.cluster.list_all(CONNECTION, world.namespace)
    assert [each["metadata"]["name"] for each in left] == ["stable"]
    assert all("finalizers" not in each["metadata"] for each in [*left, live])
    assert "Traceback" not in world.operator.log.read_text()


async def test_it_ends_cleanly_when_told_to(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")

    assert await world.operator.stop() == 0
    assert "Traceback" not in world.operator.log.read_text()
    await world.operator.start()


async def test_an_api_server_that_refuses_statuses_for_a_while_does_no_harm(world: World, backend: Backend) -> None:
    """Without the right to write status every pass fails; once it is back nothing has to be touched."""
    role = json.loads((await world.kubectl("get", "role", RELEASE, "-o", "json")).stdout)
    without = [rule for rule in role["rules"] if "mcpconnections/status" not in rule["resources"]]
    await world.kubectl("patch", "role", RELEASE, "--type=merge", "-p", json.dumps({"rules": without}))
    await world.apply(proxy(), connection("notes", backend.url))
    async with asyncio.timeout(90):
        while "next attempt in" not in world.operator.log.read_text():
            await asyncio.sleep(0.1)
    assert await world.tools() == ["notes_echo", "notes_wait"]

    await world.kubectl("patch", "role", RELEASE, "--type=merge", "-p", json.dumps({"rules": role["rules"]}))
    await world.until_ready("notes")
