"""What the pods of bridges tell: whether they run, how often they had to be started again, what keeps them from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_connections.api.connection_status import PodStatus
from mcp_connections.operator.bridge_workload import CONTAINER
from mcp_connections.operator.cluster import Object
from mcp_connections.operator.labels import connection_of

_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff"})


def bridge_pods(pods: Iterable[Object], deployments: Iterable[Object]) -> dict[str, PodStatus]:
    """By name of the connection: its newest pod that is not on its way out; without one, why there is none."""
    newest: dict[str, Object] = {}
    for pod in sorted(pods, key=_age):
        name = connection_of(pod)
        if name is not None and not pod["metadata"].get("deletionTimestamp"):
            newest[name] = pod
    found = {}
    for deployment in deployments:
        name = connection_of(deployment)
        if name is not None:
            found[name] = _of(newest[name]) if name in newest else PodStatus(message=_no_pod(deployment))
    return found


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _of(pod: Object) -> PodStatus:
    status = pod.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    containers = status.get("containerStatuses") or ()
    container: Mapping[str, Any] = next((each for each in containers if each.get("name") == CONTAINER), {})
    return PodStatus(
        name=pod["metadata"]["name"],
        ready=conditions.get("Ready", {}).get("status") == "True",
        restarts=sum(int(each.get("restartCount") or 0) for each in containers),
        last_exit=_exit((container.get("lastState") or {}).get("terminated")),
        message=_trouble(pod, status, conditions.get("PodScheduled", {}), container),
    )


def _exit(terminated: Mapping[str, Any] | None) -> str | None:
    if terminated is None:
        return None
    return f"{terminated.get('reason') or 'Ended'} (exit code {terminated.get('exitCode')})"


def _trouble(
    pod: Object, status: Mapping[str, Any], scheduled: Mapping[str, Any], container: Mapping[str, Any]
) -> str | None:
    """Without what changes by itself, such as how long the kubelet waits before it tries again."""
    if status.get("phase") == "Failed":
        return f"{status.get('reason') or 'Failed'}: {status.get('message') or 'the pod has ended'}"
    if scheduled.get("status") == "False":
        return f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}"
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    if reason is None or reason in _ON_ITS_WAY:
        return None
    if reason in _NO_IMAGE:
        image = next((each["image"] for each in pod["spec"]["containers"] if each["name"] == CONTAINER), "")
        return f"ImagePullBackOff: the image {image!r} cannot be pulled"
    if reason == "CrashLoopBackOff":
        ended = _exit((container.get("lastState") or {}).get("terminated"))
        return f"CrashLoopBackOff: the container ends by itself{f', last with {ended}' if ended else ''}"
    return f"{reason}: {waiting.get('message') or 'see the events of the pod'}"


def _no_pod(deployment: Object) -> str | None:
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return next(
        (
            str(each.get("message"))
            for each in conditions
            if each.get("type") == "ReplicaFailure" and each.get("status") == "True"
        ),
        None,
    )
