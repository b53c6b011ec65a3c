"""Statuses are written when they differ, and what others wrote into them is left alone."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from mcp_connections.operator.cluster import CONNECTION, EVENT, Cluster
from mcp_connections.operator.events import Recorder
from mcp_connections.operator.statuses import StatusWriter, Update, is_current
from tests.operator.world import condition, connection

MOMENT = "2026-01-02T03:04:05Z"


def status(ready: str = "True", **members: Any) -> dict[str, Any]:
    return {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": kind,
                "status": ready,
                "reason": kind if ready == "True" else "Unreachable",
                "message": "",
                "lastTransitionTime": MOMENT,
                "observedGeneration": 1,
            }
            for kind in ("Ready", "Mounted")
        ],
        **members,
    }


FOREIGN = {"type": "Approved", "status": "True", "reason": "ByUs", "message": "", "lastTransitionTime": MOMENT}


def update(live: dict[str, Any], new: dict[str, Any]) -> Update:
    return Update(live={"kind": "McpConnection", "status": live}, status=new)


def test_the_same_is_current() -> None:
    assert is_current(update(status(), status()))


def test_a_foreign_condition_between_ours_does_not_matter() -> None:
    live = status()
    live["conditions"].insert(1, FOREIGN)

    assert is_current(update(live, status()))


@pytest.mark.parametrize(
    "live",
    [
        {},
        status("False"),
        status(lastError="long ago"),
        status() | {"observedGeneration": 0},
        status() | {"conditions": status()["conditions"][:1]},
    ],
)
def test_a_difference_of_ours_matters(live: dict[str, Any]) -> None:
    assert not is_current(update(live, status()))


async def create(cluster: Cluster, namespace: str, name: str = "notes") -> dict[str, Any]:
    manifest = connection(name, "http://notes.example/mcp")
    manifest["metadata"]["namespace"] = namespace
    return await cluster.create(CONNECTION, manifest)


async def test_a_status_is_written_once_and_others_conditions_are_kept(cluster: Cluster, namespace: str) -> None:
    live = await create(cluster, namespace)
    writer = StatusWriter(cluster, Recorder(cluster))

    assert await writer.write([Update(live=live, status=status())]) == 1
    assert await writer.write([Update(live=live, status=status())]) == 0

    # Somebody else adds a condition, under a name of his own.
    theirs = {"apiVersion": live["apiVersion"], "kind": live["kind"], "status": {"conditions": [FOREIGN]}}
    theirs["metadata"] = {"name": "notes", "namespace": namespace}
    await cluster._request(  # noqa: SLF001  (as another field manager)
        "PATCH",
        f"/apis/mcp-connections.io/v1alpha1/namespaces/{namespace}/mcpconnections/notes/status",
        query={"fieldManager": "somebody-else"},
        body=theirs,
        content_type="application/apply-patch+yaml",
    )
    now = await cluster.get(CONNECTION, namespace, "notes")
    assert now is not None
    assert await writer.write([Update(live=now, status=status())]) == 0
    assert await writer.write([Update(live=now, status=status("False"))]) == 1

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert condition(after, "Approved")["status"] == "True"
    assert condition(after, "Ready")["status"] == "False"
    reasons = sorted(event["reason"] for event in await cluster.list_all(EVENT, namespace))
    assert reasons == ["Ready", "Unreachable"]


async def test_a_member_that_is_no_longer_true_goes(cluster: Cluster, namespace: str) -> None:
    live = await create(cluster, namespace)
    writer = StatusWriter(cluster, Recorder(cluster))
    await writer.write([Update(live=live, status=status("False", nextRetry=MOMENT))])

    await writer.write([Update(live=live, status=status())])

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert "nextRetry" not in after["status"]


async def test_a_change_of_something_else_meanwhile_does_not_matter(cluster: Cluster, namespace: str) -> None:
    live = await create(cluster, namespace)
    writer = StatusWriter(cluster, Recorder(cluster))
    await cluster.merge(CONNECTION, namespace, "notes", {"metadata": {"labels": {"team": "ours"}}})

    assert await writer.write([Update(live=live, status=status())]) == 1

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert condition(after, "Ready")["status"] == "True"
    assert after["metadata"]["labels"] == {"team": "ours"}


async def test_k8s_13_labels_that_change_all_the_time_do_not_keep_a_status_from_being_written(
    cluster: Cluster, namespace: str
) -> None:
    live = await create(cluster, namespace)
    writer = StatusWriter(cluster, Recorder(cluster))
    stop = asyncio.Event()

    async def relabel() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await cluster.merge(CONNECTION, namespace, "notes", {"metadata": {"labels": {"number": str(number)}}})
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        group.create_task(relabel())
        for number in range(20):
            await writer.write([Update(live=live, status=status("True" if number % 2 else "False"))])
            await asyncio.sleep(0.05)
        stop.set()

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert condition(after, "Ready")["status"] == "True"


async def test_the_status_of_a_deleted_object_does_not_land_on_its_successor(cluster: Cluster, namespace: str) -> None:
    gone = await create(cluster, namespace)
    path = f"/apis/mcp-connections.io/v1alpha1/namespaces/{namespace}/mcpconnections/notes"
    await cluster._request("DELETE", path)  # noqa: SLF001  (the operator deletes nothing)
    await create(cluster, namespace)
    writer = StatusWriter(cluster, Recorder(cluster))

    await writer.write([Update(live=gone, status=status())])

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert condition(after, "Ready")["status"] == "Unknown"
    assert await cluster.list_all(EVENT, namespace) == []


async def test_an_object_that_is_gone_keeps_no_other_from_being_written(cluster: Cluster, namespace: str) -> None:
    live = await create(cluster, namespace)
    gone = copy.deepcopy(live)
    gone["metadata"] |= {"name": "absent", "uid": "00000000-0000-0000-0000-000000000001"}

    await StatusWriter(cluster, Recorder(cluster)).write([Update(live=each, status=status()) for each in (gone, live)])

    after = await cluster.get(CONNECTION, namespace, "notes")
    assert after is not None
    assert condition(after, "Ready")["status"] == "True"
    assert len(await cluster.list_all(CONNECTION, namespace)) == 1
