"""The operator has the rights that it needs, and none that it could do without: each is taken away in turn."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mcp_connections.api import meta
from mcp_connections.api.connection_status import McpConnectionStatus
from mcp_connections.operator.cluster import CONNECTION, Cluster, ClusterError
from mcp_connections.operator.events import Recorder
from mcp_connections.operator.rights import NEEDED, Right
from mcp_connections.operator.statuses import StatusWriter, Update
from tests.chart.observables import (
    SOURCE,
    Bench,
    BridgeIsMade,
    BridgeIsTakenAway,
    ConfigMapIsFollowed,
    ConnectionHasStatus,
    DefaultProxyIsMade,
    DeletedDeploymentComesBack,
    EventIsRecorded,
    NewConnectionIsSeen,
    NewPodIsSeen,
    NewProxyIsSeen,
    Observable,
    ProxyHasStatus,
    RepeatedEventIsCounted,
    SecretIsFollowed,
    WorkloadIsMade,
    until,
)
from tests.cluster.control_plane import ControlPlane
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import Rule, granted, operator_kubeconfig

OURS = meta.GROUP
NOTICED_WITHIN = 2.0
"""Seconds without the consequence after which it is taken not to come. With all rights it takes a fraction of one."""
ATTEMPTS = 4
AT_ONCE = 3
"""Operators at once in one test."""

FAILS: dict[Right, type[Observable]] = {
    Right(OURS, "mcpconnections", "list"): WorkloadIsMade,
    Right(OURS, "mcpconnections", "watch"): NewConnectionIsSeen,
    Right(OURS, "mcpconnections/status", "patch"): ConnectionHasStatus,
    Right(OURS, "mcpproxies", "get"): DefaultProxyIsMade,
    Right(OURS, "mcpproxies", "list"): NewProxyIsSeen,
    Right(OURS, "mcpproxies", "watch"): NewProxyIsSeen,
    Right(OURS, "mcpproxies", "create"): DefaultProxyIsMade,
    Right(OURS, "mcpproxies", "patch"): DefaultProxyIsMade,
    Right(OURS, "mcpproxies/status", "patch"): ProxyHasStatus,
    Right("", "secrets", "get"): WorkloadIsMade,
    Right("", "secrets", "list"): WorkloadIsMade,
    Right("", "secrets", "watch"): SecretIsFollowed,
    Right("", "secrets", "create"): WorkloadIsMade,
    Right("", "secrets", "patch"): WorkloadIsMade,
    Right("", "secrets", "delete"): BridgeIsTakenAway,
    Right("", "services", "get"): WorkloadIsMade,
    Right("", "services", "create"): WorkloadIsMade,
    Right("", "services", "patch"): WorkloadIsMade,
    Right("", "services", "delete"): BridgeIsTakenAway,
    Right("", "services", "list"): WorkloadIsMade,
    Right("", "serviceaccounts", "get"): WorkloadIsMade,
    Right("", "serviceaccounts", "create"): WorkloadIsMade,
    Right("", "serviceaccounts", "patch"): WorkloadIsMade,
    Right("", "serviceaccounts", "delete"): BridgeIsTakenAway,
    Right("", "serviceaccounts", "list"): WorkloadIsMade,
    Right("apps", "deployments", "get"): WorkloadIsMade,
    Right("apps", "deployments", "list"): WorkloadIsMade,
    Right("apps", "deployments", "watch"): DeletedDeploymentComesBack,
    Right("apps", "deployments", "create"): WorkloadIsMade,
    Right("apps", "deployments", "patch"): WorkloadIsMade,
    Right("apps", "deployments", "delete"): BridgeIsTakenAway,
    Right("networking.k8s.io", "networkpolicies", "get"): BridgeIsMade,
    Right("networking.k8s.io", "networkpolicies", "list"): WorkloadIsMade,
    Right("networking.k8s.io", "networkpolicies", "create"): BridgeIsMade,
    Right("networking.k8s.io", "networkpolicies", "patch"): BridgeIsMade,
    Right("networking.k8s.io", "networkpolicies", "delete"): BridgeIsTakenAway,
    Right("", "configmaps", "get"): DefaultProxyIsMade,
    Right("", "configmaps", "list"): ConfigMapIsFollowed,
    Right("", "configmaps", "watch"): ConfigMapIsFollowed,
    Right("", "pods", "list"): ConnectionHasStatus,
    Right("", "pods", "watch"): NewPodIsSeen,
    Right("", "events", "create"): EventIsRecorded,
    Right("", "events", "patch"): RepeatedEventIsCounted,
}
"""What no longer happens without the right. Of reading one connection anew there is a test of its own."""
READ_ANEW = Right(OURS, "mcpconnections", "get")
FOR_DEFAULT_PROXY = (Right(OURS, "mcpproxies", "create"), Right(OURS, "mcpproxies", "patch"))
"""Of one object only, and so not among those that the operator asks for at its start."""


def without(right: Right) -> Callable[[list[Rule]], list[Rule]]:
    """The rules less one verb on one resource."""

    def change(rules: list[Rule]) -> list[Rule]:
        return [
            {**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs}
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            if (verbs := [verb for verb in rule["verbs"] if Right(group, resource, verb) != right])
        ]

    return change


def rights_of(objects: list[Rule]) -> list[Right]:
    """Everything that Roles grant, once for each time it is granted."""
    return [
        Right(group, resource, verb)
        for each in objects
        if each["kind"] == "Role"
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@pytest.fixture
async def bench(control_plane: ControlPlane, namespace: str, cluster: Cluster) -> Bench:
    """A furnished namespace."""
    furnished = Bench(control_plane, namespace, cluster)
    await furnished.furnish()
    return furnished


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """The operator's own client, as cluster administrator."""
    async with await Cluster.connect(control_plane.kubeconfig) as client:
        yield client


def operator(plane: ControlPlane, namespace: str, log: Path, missing: Right | None = None) -> OperatorProcess:
    """An operator with the chart's rights, or with all but one of them."""
    change = without(missing) if missing else lambda rules: rules
    kubeconfig = operator_kubeconfig(plane, namespace, change)
    return OperatorProcess(namespace, kubeconfig, log, "--default-proxy", f"{namespace}/{SOURCE}")


def test_the_chart_grants_what_the_operator_says_it_needs_once_and_nothing_else() -> None:
    assert sorted(rights_of(granted("any"))) == sorted([*NEEDED, *FOR_DEFAULT_PROXY])


def test_for_every_right_it_is_known_what_fails_without_it() -> None:
    assert {*FAILS, READ_ANEW} == {*rights_of(granted("any"))}


async def test_with_all_rights_everything_happens_and_nothing_is_refused(
    control_plane: ControlPlane, bench: Bench, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with operator(control_plane, bench.namespace, log):
        for kind in dict.fromkeys(FAILS.values()):
            observable = kind()
            await observable.act(bench)
            await until(lambda: observable.holds(bench))  # noqa: B023  (awaited before the next one)

    assert "lacks a right" not in log.read_text()
    assert "forbidden" not in log.read_text()


@pytest.mark.parametrize("kind", dict.fromkeys(FAILS.values()), ids=lambda kind: kind.__name__)
async def test_without_any_one_of_its_rights_it_does_not_happen_and_the_log_names_the_right(
    control_plane: ControlPlane, cluster: Cluster, tmp_path: Path, kind: type[Observable]
) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def try_without(right: Right) -> None:
        namespace = f"without-{uuid.uuid4().hex[:10]}"
        async with slots:
            await asyncio.to_thread(control_plane.kubectl, "create", "namespace", namespace)
            bench = Bench(control_plane, namespace, cluster)
            await bench.furnish()
            with_log = tmp_path / f"{namespace}.log"
            async with await asyncio.to_thread(operator, control_plane, namespace, with_log, right):
                await fails_without(right, kind(), bench, with_log)
            if right not in FOR_DEFAULT_PROXY:
                assert await says(with_log, f"The operator lacks a right in namespace {namespace}: {right}.")

    async with asyncio.TaskGroup() as group:
        for right, consequence in FAILS.items():
            if consequence is kind:
                group.create_task(try_without(right), name=f"without {right}")


async def fails_without(right: Right, observable: Observable, bench: Bench, log: Path) -> None:
    """Once is enough: a pass that was due for another reason may have had the consequence by the way."""
    for observable.turn in range(ATTEMPTS):
        if type(observable).act is not Observable.act:
            await until(lambda: ConnectionHasStatus().holds(bench))
            await observable.act(bench)
        await until(lambda: was_refused(log, right))
        try:
            async with asyncio.timeout(NOTICED_WITHIN):
                await until(lambda: observable.holds(bench))
        except TimeoutError:
            return
    pytest.fail(f"{type(observable).__name__} comes about without the right to {right}: it is not needed for that")


async def was_refused(log: Path, right: Right) -> bool:
    """Whether the operator was refused it, and told so in its log."""
    return await says(log, f'cannot {right.verb} resource "{right.resource}"')


async def says(log: Path, text: str) -> bool:
    """Whether the operator has written it."""
    return text in await asyncio.to_thread(log.read_text)


async def test_a_status_that_lost_a_race_is_written_after_reading_the_connection_anew(
    control_plane: ControlPlane, bench: Bench, cluster: Cluster
) -> None:
    stale = await bench.get(CONNECTION, "notes")
    await bench.apply({**{key: stale[key] for key in ("apiVersion", "kind", "spec")}, "metadata": labelled()})

    for change, is_written in ((without(READ_ANEW), False), (lambda rules: rules, True)):
        kubeconfig = operator_kubeconfig(control_plane, bench.namespace, change)
        async with await Cluster.connect(kubeconfig) as client:
            writer = StatusWriter(client, Recorder(client))
            update = Update(live=copy.deepcopy(stale), status=McpConnectionStatus(observed_generation=1).dump())
            try:
                await writer.write([update])
            except ClusterError as error:
                assert 'cannot get resource "mcpconnections"' in str(error)  # noqa: PT017  (only one of the two)
        status = (await bench.get(CONNECTION, "notes"))["status"]
        assert ("observedGeneration" in status) is is_written


def labelled() -> dict[str, object]:
    """Another version of the same connection."""
    return {"name": "notes", "labels": {"changed": "meanwhile"}}
