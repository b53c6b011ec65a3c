"""Events mark the proxies that they concern, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import kopf
import pytest

from mcp_connections.operator import watching
from mcp_connections.operator.references import References
from mcp_connections.operator.trigger import ProxyKey, Trigger
from mcp_connections.operator.watching import _Watcher

DEFAULT, OTHER = ProxyKey("team", "default"), ProxyKey("team", "other")


class Scene:
    """A watcher and what it marked."""

    def __init__(self) -> None:
        self.references = References()
        self.trigger = Trigger()
        self.watcher = _Watcher(self.trigger, self.references)

    def send(self, kind: str, obj: dict[str, Any], type: str | None = "MODIFIED") -> list[ProxyKey]:  # noqa: A002
        """What one event marks."""

        async def handle() -> list[ProxyKey]:
            await getattr(self.watcher, kind)(event={"type": type, "object": obj})
            marked = [key for key, flag in self.trigger._flags.items() if flag.is_set]  # noqa: SLF001
            for key in marked:
                self.trigger.flag(key).clear()
            return sorted(marked)

        return asyncio.run(handle())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def obj(name: str = "a", *, generation: int = 1, version: str = "1", **members: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "team",
        "name": name,
        "uid": f"uid-of-{name}",
        "generation": generation,
        "resourceVersion": version,
    }
    return {"metadata": metadata | members.pop("metadata", {}), **members}


OURS = {
    "labels": {"app.kubernetes.io/managed-by": "mcp-connections-operator"},
    "annotations": {"mcp-connections.io/proxy": "default"},
}


def test_a_connection_marks_its_proxy(scene: Scene) -> None:
    assert scene.send("connection", obj(), None) == [DEFAULT]
    assert scene.send("connection", obj("b", spec={"proxyRef": {"name": "other"}}), "ADDED") == [OTHER]


def test_the_echo_of_a_status_write_marks_nothing(scene: Scene) -> None:
    scene.send("connection", obj(version="1"), "ADDED")

    assert scene.send("connection", obj(version="2", status={"observedGeneration": 1})) == []
    assert scene.send("connection", obj(version="3", generation=2)) == [DEFAULT]


def test_a_relist_after_a_lost_watch_marks_nothing_that_was_seen(scene: Scene) -> None:
    scene.send("connection", obj(), "ADDED")

    assert scene.send("connection", obj(), None) == []


def test_a_deletion_marks_at_each_step(scene: Scene) -> None:
    scene.send("connection", obj(), "ADDED")

    assert scene.send("connection", obj(metadata={"deletionTimestamp": "now"})) == [DEFAULT]
    assert scene.send("connection", obj(metadata={"deletionTimestamp": "now"}), "DELETED") == [DEFAULT]


def test_a_connection_that_moves_marks_both_proxies(scene: Scene) -> None:
    scene.send("connection", obj(), "ADDED")

    assert scene.send("connection", obj(generation=2, spec={"proxyRef": {"name": "other"}})) == [DEFAULT, OTHER]


def test_a_proxy_marks_itself_but_not_for_its_status(scene: Scene) -> None:
    assert scene.send("proxy", obj("other"), None) == [OTHER]
    assert scene.send("proxy", obj("other", version="2")) == []
    assert scene.send("proxy", obj("other", version="3"), "DELETED") == [OTHER]


@pytest.mark.parametrize(("handler", "kind"), [("secret", "Secret"), ("config_map", "ConfigMap")])
def test_data_marks_those_who_refer_to_it(scene: Scene, handler: str, kind: str) -> None:
    assert scene.send(handler, obj("token"), None) == []

    scene.references.replace(DEFAULT, [(kind, "team", "token")])
    scene.references.replace(OTHER, [(kind, "team", "token")])

    assert scene.send(handler, obj("token", version="1"), None) == [DEFAULT, OTHER]
    assert scene.send(handler, obj("token", version="1"), None) == []
    assert scene.send(handler, obj("token", version="2")) == [DEFAULT, OTHER]
    assert scene.send(handler, obj("token", version="2"), "DELETED") == [DEFAULT, OTHER]
    assert scene.send(handler, obj("unrelated")) == []


def test_a_secret_of_ours_marks_when_it_is_deleted_and_not_when_we_write_it(scene: Scene) -> None:
    assert scene.send("secret", obj("mounts", metadata=OURS)) == []
    assert scene.send("secret", obj("mounts", metadata=OURS), "DELETED") == [DEFAULT]


def test_a_deployment_marks_for_its_spec_and_not_for_its_status(scene: Scene) -> None:
    assert scene.send("deployment", obj(metadata=OURS), None) == [DEFAULT]
    assert scene.send("deployment", obj(version="2", metadata=OURS)) == []
    assert scene.send("deployment", obj(generation=2, metadata=OURS)) == [DEFAULT]
    assert scene.send("deployment", obj("foreign")) == []


def test_a_pod_marks_when_it_can_be_reached_or_not(scene: Scene) -> None:
    def pod(ready: str, *, restarts: int = 0) -> dict[str, Any]:
        return {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": restarts}],
        }

    assert scene.send("pod", obj(metadata=OURS, status=pod("False")), "ADDED") == [DEFAULT]
    assert scene.send("pod", obj(metadata=OURS, status=pod("True"))) == [DEFAULT]
    assert scene.send("pod", obj(metadata=OURS, status=pod("True") | {"message": "anything"})) == []
    assert scene.send("pod", obj(metadata=OURS, status=pod("True", restarts=1))) == [DEFAULT]


def test_what_keeps_a_pod_from_running_marks_at_once(scene: Scene) -> None:
    scene.send("deployment", obj(metadata=OURS), "ADDED")
    failure = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}
    assert scene.send("deployment", obj(metadata=OURS, status=failure)) == [DEFAULT]
    assert scene.send("deployment", obj(version="2", metadata=OURS, status=failure | {"replicas": 0})) == []

    scene.send("pod", obj("pod", metadata=OURS, status={"phase": "Pending"}), "ADDED")
    nowhere = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]}
    assert scene.send("pod", obj("pod", metadata=OURS, status=nowhere)) == [DEFAULT]


def test_only_silent_handlers_are_registered() -> None:
    """Anything but an event handler would make kopf write finalizers or annotations into the resources."""
    registry = kopf.OperatorRegistry()

    watching.register(registry, Trigger(), References())

    assert len(registry._watching.get_all_handlers()) == 6  # noqa: SLF001  (what kopf would run)
    assert not registry._changing.get_all_handlers()  # noqa: SLF001
    assert not registry._spawning.get_all_handlers()  # noqa: SLF001
    assert not registry._indexing.get_all_handlers()  # noqa: SLF001
