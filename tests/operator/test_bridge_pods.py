"""What a pod's status says of a bridge: without what changes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.api.connection_status import PodStatus
from mcp_connections.operator.bridge_pods import bridge_pods
from mcp_connections.operator.labels import bridge_labels

ENDED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


def obj(name: str, **members: Any) -> dict[str, Any]:
    annotations = {"mcp-connections.io/connection": "notes", "mcp-connections.io/proxy": "default"}
    metadata = {"name": name, "labels": bridge_labels("notes"), "annotations": annotations}
    spec = {"containers": [{"name": "bridge", "image": "server:1"}]}
    return {"metadata": metadata | members.pop("metadata", {}), "spec": spec, **members}


def pod(name: str = "p", *, created: str = "2026-01-01T00:00:00Z", deleted: bool = False, **status: Any) -> Any:
    metadata = {"creationTimestamp": created} | ({"deletionTimestamp": created} if deleted else {})
    return obj(name, metadata=metadata, status=status)


def container(**members: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "bridge", "restartCount": 0, **members}]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}], **container()}, PodStatus(name="p", ready=True)),
        (container(**waiting("ContainerCreating")), PodStatus(name="p")),
        (
            container(restartCount=3, lastState=ENDED),
            PodStatus(name="p", restarts=3, last_exit="OOMKilled (exit code 137)"),
        ),
        (
            container(**waiting("ErrImagePull", "context deadline exceeded")),
            PodStatus(name="p", message="ImagePullBackOff: the image 'server:1' cannot be pulled"),
        ),
        (
            container(**waiting("CrashLoopBackOff", "back-off 5m0s restarting"), restartCount=9, lastState=ENDED),
            PodStatus(
                name="p",
                restarts=9,
                last_exit="OOMKilled (exit code 137)",
                message="CrashLoopBackOff: the container ends by itself, last with OOMKilled (exit code 137)",
            ),
        ),
        (
            container(**waiting("CreateContainerError", "exec: mcp-connections: not found")),
            PodStatus(name="p", message="CreateContainerError: exec: mcp-connections: not found"),
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]},
            PodStatus(name="p", message="not scheduled: 0/3 nodes are available"),
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "out of disk"},
            PodStatus(name="p", message="Evicted: out of disk"),
        ),
    ],
)
def test_a_pod_is_told_of(status: dict[str, Any], expected: PodStatus) -> None:
    assert bridge_pods([pod(**status)], [obj("d")]) == {"notes": expected}


def test_the_newest_pod_that_stays_counts() -> None:
    pods = [
        pod("old"),
        pod("new", created="2026-01-02T00:00:00Z"),
        pod("gone", created="2026-01-03T00:00:00Z", deleted=True),
    ]

    assert bridge_pods(pods, [obj("d")])["notes"].name == "new"


def test_without_a_pod_the_deployment_says_why() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}

    assert bridge_pods([], [obj("d", status={"conditions": [failure]})])["notes"] == PodStatus(message="exceeded quota")
    assert bridge_pods([], [obj("d")])["notes"] == PodStatus()
