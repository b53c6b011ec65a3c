"""An API server in trouble: whatever it answers for a while, the operator gets there, and no pod is touched."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_connections.operator.cluster import CONNECTION, Cluster
from mcp_connections.operator.main import WATCH_SECONDS
from tests.cluster.control_plane import ControlPlane
from tests.operator.backend import Backend
from tests.operator.kubelet import Kubelet
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig
from tests.operator.unkind_apiserver import Asked, Trouble, UnkindApiServer
from tests.operator.world import World, condition, connection, proxy


class Unkind(World):
    """The world by way of an API server that can be unkind."""

    api: UnkindApiServer


@pytest.fixture
async def unkind(
    control_plane: ControlPlane, namespace: str, cluster: Cluster, kubelet: Kubelet, tmp_path: Path
) -> AsyncIterator[Unkind]:
    straight = operator_kubeconfig(control_plane, namespace)
    async with UnkindApiServer(control_plane, straight) as api:
        through = api.kubeconfig(tmp_path / "through.kubeconfig")
        async with OperatorProcess(namespace, through, tmp_path / "operator.log") as operator:
            world = Unkind(control_plane, namespace, cluster, kubelet, operator)
            world.api = api
            yield world


TOO_MANY = Trouble(429, "TooManyRequests", "too many requests, please try again later", {"Retry-After": "1"})
UNAVAILABLE = Trouble(503, "ServiceUnavailable", "the server is currently unable to handle the request")
CONFLICT = Trouble(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
EXPIRED = Trouble(410, "Expired", "the provided continue parameter is too old, or too old resource version")

OUTAGE = float(os.environ.get("OUTAGE_SECONDS", "10"))
"""How long the API server is away. ``OUTAGE_SECONDS=600 pytest -k "refusing or gone"`` has it away for ten minutes."""


async def met(world: Unkind, count: int, seen: Counter[str]) -> None:
    """Wait until so many requests were answered with trouble."""
    async with asyncio.timeout(90):
        while seen["troubled"] < count:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("trouble", [TOO_MANY, UNAVAILABLE], ids=lambda each: str(each.code))
async def test_refusing_everything_for_a_while(unkind: Unkind, backend: Backend, trouble: Trouble) -> None:
    await unkind.apply(proxy(), connection("notes", backend.url))
    await unkind.until_ready("notes")
    pods, seen = await unkind.until_pods(1), Counter[str]()

    def refuse(_: Asked) -> Trouble:
        seen["troubled"] += 1
        return trouble

    unkind.api.trouble = refuse
    unkind.api.cut_watches()
    await unkind.patch("notes", {"prefix": "memo"})
    await met(unkind, 8, seen)
    await asyncio.sleep(OUTAGE)
    assert await unkind.tools() == ["notes_echo", "notes_wait"], "pods need no API server"
    unkind.api.trouble = lambda _: None

    await unkind.until_ready("notes")
    assert await unkind.tools() == ["memo_echo", "memo_wait"]
    assert await unkind.until_pods(1) == pods
    assert "Traceback" not in unkind.operator.log.read_text()


async def test_k8s_13_conflicts_delay_a_status_and_fail_nothing(unkind: Unkind, backend: Backend) -> None:
    """Every first write meets a conflict, somebody labels all the time, and somebody else has a condition there."""
    troubled = Counter[str]()

    def conflict(asked: Asked) -> Trouble | None:
        if asked.method == "PATCH" and troubled[asked.path] < 2:
            troubled[asked.path] += 1
            return CONFLICT
        return None

    async def relabel() -> None:
        for number in itertools.count():
            labels = {"metadata": {"labels": {"number": str(number)}}}
            await unkind.cluster.merge(CONNECTION, unkind.namespace, "notes", labels)
            await asyncio.sleep(0.05)

    unkind.api.trouble = conflict
    await unkind.apply(proxy(), connection("notes", backend.url))
    relabelling = asyncio.create_task(relabel())
    try:
        since = condition(await unkind.until_ready("notes"), "Ready")["lastTransitionTime"]
        theirs = condition(await unkind.connection("notes"), "Ready") | {"type": "Approved", "reason": "ByHand"}
        await unkind.kubectl(
            *("patch", "mcpc", "notes", "--subresource=status", "--type=json", "-p"),
            json.dumps([{"op": "add", "path": "/status/conditions/-", "value": theirs}]),
        )
        await unkind.patch("notes", {"enabled": False})
        await unkind.until_condition("notes", "Ready", "False", "Disabled")
        await unkind.patch("notes", {"enabled": True})
        live = await unkind.until_ready("notes")
    finally:
        relabelling.cancel()
        await asyncio.wait([relabelling])
    assert relabelling.cancelled()
    await unkind.until_programmed()

    assert condition(live, "Approved") == theirs
    assert condition(live, "Ready")["lastTransitionTime"] >= since
    assert int(live["metadata"]["labels"]["number"]) > 20
    assert len(troubled) >= 5, "statuses and objects of the workload"
    told = unkind.operator.log.read_text()
    assert "Traceback" not in told
    assert told.count("next attempt in") <= 3, told


async def test_k8s_09_watches_that_expire_and_lists_that_expire(unkind: Unkind, backend: Backend) -> None:
    await unkind.apply(proxy(), connection("notes", backend.url))
    await unkind.until_ready("notes")
    seen = Counter[str]()

    def expire(asked: Asked) -> Trouble | None:
        kind = "watch" if asked.watches else "list" if asked.method == "GET" and "limit" in asked.query else ""
        if not kind or seen[kind] >= 4:
            return None
        seen[kind] += 1
        return EXPIRED

    unkind.api.trouble = expire
    unkind.api.cut_watches()
    await unkind.patch("notes", {"prefix": "memo"})
    await unkind.until_ready("notes")
    assert await unkind.tools() == ["memo_echo", "memo_wait"]
    assert seen["watch"] == 4
    assert {asked.query.get("timeoutSeconds") for asked in unkind.api.asked if asked.watches} == {str(WATCH_SECONDS)}


async def test_gone_and_back_again(unkind: Unkind, backend: Backend) -> None:
    await unkind.apply(proxy(), connection("notes", backend.url), connection("gone", backend.url))
    await unkind.until_ready("notes")
    await unkind.until_ready("gone")
    pods = await unkind.until_pods(1)

    await unkind.api.refuse()
    await unkind.patch("notes", {"prefix": "memo"})
    await unkind.kubectl("delete", "mcpc", "gone", "--timeout=30s")
    await unkind.kubectl("delete", "service", "mcp-proxy-default")
    await asyncio.sleep(OUTAGE)
    assert await unkind.call("notes_echo", text="alone") == "alone"
    await unkind.api.accept()

    await unkind.until_ready("notes")
    await unkind.until_programmed()
    assert await unkind.tools() == ["memo_echo", "memo_wait"]
    assert await unkind.until_pods(1) == pods


async def test_an_admission_policy_that_refuses_is_told_and_done_with_once_it_is_gone(
    unkind: Unkind, backend: Backend
) -> None:
    name = f"deny-{unkind.namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": unkind.namespace}},
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["deployments"],
                    }
                ],
            },
            "validations": [{"expression": "false", "message": "deployments need a cost centre"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await unkind.kubectl(
        "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
    )
    try:
        await asyncio.sleep(2)  # policies come into force a moment later
        await unkind.apply(proxy(), connection("notes", backend.url))
        live = await unkind.until_proxy_condition("Accepted", "False", "ApplyFailed")
        assert "deployments need a cost centre" in condition(live, "Accepted")["message"]
    finally:
        await unkind.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
    await unkind.until_proxy_condition("Accepted", "True")
    await unkind.until_ready("notes")
