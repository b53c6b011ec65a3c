"""stdio connections on a real API server: a pod of its own for each, reached through its bridge."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcp_connections.operator.cluster import (
    CONNECTION,
    DEPLOYMENT,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Object,
)
from mcp_connections.operator.labels import BRIDGES_SELECTOR, bridge_labels
from tests.operator.backend import Backend
from tests.operator.kubelet import UNPULLABLE
from tests.operator.world import World, condition, proxy, stdio

ECHO = [sys.executable, str(Path(__file__).parents[1] / "cli" / "echo_backend.py")]
KINDS = (SECRET, SERVICE_ACCOUNT, SERVICE, NETWORK_POLICY, DEPLOYMENT)
NAME = "mcp-bridge-notes"
ALLOWING: dict[str, Any] = {"stdio": {"allowed": True}}


def secret(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "word"}, "stringData": {"word": value}}


FROM_SECRET = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "word", "key": "word"}}}]


async def said(world: World, tool: str = "notes_echo", **arguments: Any) -> Any:
    return json.loads(await world.call_text(tool, **arguments))


async def bridge_objects(world: World) -> list[str]:
    found: list[Object] = []
    for kind in KINDS:
        found += await world.cluster.list_all(kind, world.namespace, label_selector=BRIDGES_SELECTOR)
    return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found]


async def test_a_command_runs_in_a_pod_of_its_own_with_what_it_was_given(world: World) -> None:
    env: list[dict[str, Any]] = [*FROM_SECRET, {"name": "PLAIN", "value": "$(HOME) costs $5"}]
    await world.apply(proxy(**ALLOWING), secret("  first-secret-value\n"), stdio("notes", *ECHO, "echo", env=env))

    live = await world.until_ready("notes")

    assert await world.tools() == ["notes_echo"]
    answer = await said(world, text="$(HOME)")
    assert answer["variable"] == "first-secret-value"
    (pod,) = world.kubelet.bridges
    status = await world.until(
        CONNECTION, "notes", lambda now: now["status"].get("pod", {}).get("ready") is True, what="a ready pod"
    )
    assert status["status"]["pod"] == {"name": pod.name, "ready": True, "restarts": 0, "commandExits": 0}
    assert (live["status"]["mount"]["transport"], "url" in live["status"]["mount"]) == ("stdio", False)
    assert await bridge_objects(world) == [
        f"Secret {NAME}-token",
        *(f"{kind.kind} {NAME}" for kind in (SERVICE_ACCOUNT, SERVICE, NETWORK_POLICY, DEPLOYMENT)),
    ]
    await nothing_secret_is_shown(world, "first-secret-value")

    await world.apply(secret("second-value"))
    await world.until_call("notes_echo", lambda text: json.loads(text)["variable"] == "second-value")
    assert [each.name for each in world.kubelet.bridges] != [pod.name]

    await world.patch("notes", {"transport": {"stdio": {"command": [*ECHO, "shout"]}}})
    await world.until_tools(["notes_shout"])
    assert (await said(world, "notes_shout"))["variable"] == "second-value"


async def nothing_secret_is_shown(world: World, value: str) -> None:
    shown = (await world.kubectl("get", "deploy,svc,sa,netpol,pod,events,mcpc,mcpp", "-o", "yaml")).stdout
    shown += world.operator.log.read_text() + "".join(each.log.read_text() for each in world.kubelet.pods.values())
    token = await world.cluster.get(SECRET, world.namespace, f"{NAME}-token")
    assert token is not None
    assert value not in shown
    assert base64.b64decode(token["data"]["token"]).decode() not in shown


async def test_a_pod_comes_back_and_a_lost_token_is_made_anew(world: World) -> None:
    await world.apply(proxy(**ALLOWING), stdio("notes", *ECHO))
    before = await world.until_ready("notes")
    (pod,) = world.kubelet.bridges
    assert pod.process is not None

    os.kill(pod.process.pid, signal.SIGKILL)
    live = await world.until(
        CONNECTION, "notes", lambda now: now["status"].get("pod", {}).get("restarts") == 1, what="one restart"
    )
    assert "exit code" in live["status"]["pod"]["lastExit"]
    await world.until_call("notes_echo", lambda text: "pid" in text)

    await world.kubectl("delete", "secret", f"{NAME}-token")
    await world.until(
        CONNECTION,
        "notes",
        lambda now: (
            now["status"]["mount"]["fingerprint"] != before["status"]["mount"]["fingerprint"]
            and condition(now, "Ready")["status"] == "True"
        ),
        what="a mount with another token",
    )
    await world.until_call("notes_echo", lambda text: "pid" in text)


async def test_what_is_not_allowed_or_not_wanted_is_taken_away(world: World, backend: Backend) -> None:
    await world.apply(proxy(), stdio("notes", *ECHO), stdio("other", *ECHO))
    refused = await world.until_condition("notes", "Accepted", "False", "StdioNotAllowed")
    assert "spec.stdio.allowed" in condition(refused, "Accepted")["message"]
    assert await bridge_objects(world) == []

    await world.apply(proxy(**ALLOWING))
    await world.until_ready("notes")
    await world.until_ready("other")
    (theirs,) = [each for each in world.kubelet.bridges if "other" in each.name]

    await world.patch("notes", {"enabled": False})
    await world.until_condition("notes", "Mounted", "False", "Disabled")
    await world.until_no_bridge("notes")

    await world.patch("notes", {"enabled": True, "transport": {"stdio": None, "http": {"url": backend.url}}})
    live = await world.until_ready("notes")
    assert "pod" not in live["status"]
    assert theirs in world.kubelet.bridges

    await world.kubectl("delete", "mcpc", "other")
    await world.until_no_bridge("other")
    await world.patch("notes", {"transport": {"http": None, "stdio": {"command": ECHO}}})
    await world.until(DEPLOYMENT, NAME, lambda _: True, what="a Deployment")
    await world.apply(proxy(stdio={"allowed": False}))
    await world.until_condition("notes", "Accepted", "False", "StdioNotAllowed")
    await world.until_no_bridge("notes")
    assert await bridge_objects(world) == []


async def test_what_ails_a_command_or_its_pod_is_told_and_concerns_no_other(world: World) -> None:
    fails = "import sys; sys.stdin.readline(); sys.stderr.write('no license found\\n'); sys.exit(7)"
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": {"ports": [{"port": 1}]}}
    annotations = {"mcp-connections.io/proxy": "default", "mcp-connections.io/connection": "gone"}
    mine = {"name": "mine", "labels": bridge_labels("gone"), "annotations": annotations}
    await world.apply(
        theirs,
        {"apiVersion": "v1", "kind": "Secret", "metadata": mine},
        proxy(**ALLOWING),
        stdio("notes", *ECHO),
        stdio("fails", sys.executable, "-c", fails),
        stdio("absent", "no-such-program"),
        stdio("imageless", *ECHO, image=UNPULLABLE),
        stdio("good", *ECHO),
    )
    live = await world.until_condition("fails", "Ready", "False", "Exited")
    assert "exited with code 7" in condition(live, "Ready")["message"]
    assert "no license found" in condition(live, "Ready")["message"]
    live = await world.until_condition("absent", "Ready", "False", "CommandNotFound")
    assert "'no-such-program' not found" in condition(live, "Ready")["message"]

    def told(live: Object) -> bool:
        ready = condition(live, "Ready")
        return ready.get("status") == "False" and "ImagePullBackOff" in ready["message"]

    live = await world.until(CONNECTION, "imageless", told, what="the pod's trouble")
    assert UNPULLABLE in live["status"]["pod"]["message"]
    live = await world.until_condition("notes", "Accepted", "False", "ApplyFailed")
    assert f"Service {world.namespace}/{NAME}" in condition(live, "Accepted")["message"]
    await world.until_ready("good")
    assert await world.cluster.get(SECRET, world.namespace, "mine") is not None, "owned by no connection"

    await world.kubectl("delete", "service", NAME)
    await world.patch("notes", {"metadata": {"try": "again"}})
    await world.until_ready("notes")


async def test_k8s_16_once_its_cause_is_gone_an_error_goes_without_an_edit(world: World, tmp_path: Path) -> None:
    """A status is what was seen, never what is gone by: neither a restart nor anything else has to clear it."""
    program = tmp_path / "program"
    env = [{"name": "PROGRAM", "valueFrom": {"secretKeyRef": {"name": "word", "key": "word"}}}]
    await world.apply(
        proxy(**ALLOWING),
        secret("/no/such/program"),
        stdio("installed", str(program)),
        stdio("named", "sh", "-c", f'exec "$PROGRAM" {ECHO[1]}', env=env),
    )
    await world.until_condition("installed", "Ready", "False", "CommandNotFound")
    told = await world.until_condition("named", "Ready", "False", "Exited")
    assert "code 127" in condition(told, "Ready")["message"]
    assert "/no/such/program" not in json.dumps(told["status"]), "it is from a Secret"

    await world.operator.kill()
    program.write_text(f"#!/bin/sh\nexec {' '.join(ECHO)}\n")
    program.chmod(0o755)
    await world.apply(secret(sys.executable))
    await world.operator.start()

    for name in ("installed", "named"):
        live = await world.until_ready(name)
        assert live["metadata"]["generation"] == 1
    assert await world.tools() == ["installed_echo", "named_echo"]
