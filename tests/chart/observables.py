"""What can be seen of an operator that has its rights: one thing for each right that only that right brings about.

Each has an action that should have a consequence, and a look at whether the consequence is there.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_connections.operator.bridge_workload import token_secret_name
from mcp_connections.operator.cluster import (
    CONNECTION,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    PROXY,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Cluster,
    Kind,
    Object,
)
from mcp_connections.operator.labels import bridge_name
from tests.cluster.control_plane import ControlPlane
from tests.operator.rbac import RELEASE, granted
from tests.operator.world import condition, connection, proxy, stdio

SOURCE = f"{RELEASE}-proxy-default"
"""The ConfigMap that the chart has the default McpProxy made of."""
BRIDGE_KINDS = (SERVICE_ACCOUNT, SERVICE, NETWORK_POLICY, DEPLOYMENT)
LONGEST = 90.0
"""Seconds that a consequence may take on a busy machine."""
LOOK = 0.05


class Bench:
    """A namespace with what a user would have in it, looked at by an administrator."""

    def __init__(self, plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
        self._plane = plane
        self.namespace = namespace
        self._cluster = cluster
        self.authority = plane.ca_file.read_text()
        """PEM certificate of some authority."""

    async def furnish(self) -> None:
        """The chart's ConfigMap, and a connection that refers to a Secret."""
        (source,) = (each for each in granted(self.namespace) if each["metadata"]["name"] == SOURCE)
        header = {"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}}}
        notes = connection("notes", "http://127.0.0.1:9/mcp", http={"headers": [header]})
        await self.apply(source, secret("first"), notes)

    async def apply(self, *manifests: Mapping[str, Any]) -> None:
        """kubectl apply."""
        await self._kubectl(
            "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        )

    async def delete(self, what: str) -> None:
        """kubectl delete, without waiting for what a controller would do."""
        await self._kubectl("delete", what, "--wait=false")

    async def get(self, kind: Kind, name: str) -> Object:
        """The object, empty where there is none."""
        return await self._cluster.get(kind, self.namespace, name) or {}

    async def events(self) -> list[Object]:
        """All Events of the namespace."""
        return await self._cluster.list_all(EVENT, self.namespace)

    async def pod_is_ready(self, name: str) -> None:
        """Say of a pod what a kubelet says."""
        status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        patch = json.dumps({"status": status})
        await self._kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)

    async def _kubectl(self, *arguments: str, input: str | None = None) -> None:  # noqa: A002
        await asyncio.to_thread(self._plane.kubectl, "-n", self.namespace, *arguments, input=input)


class Observable:
    """Something that the operator brings about."""

    def __init__(self) -> None:
        self.turn = 0
        """How many times it was acted before."""

    async def act(self, bench: Bench) -> None:
        """Do what should have the consequence, each time anew. The operator is running, and has done what was to do."""

    async def holds(self, bench: Bench) -> bool:
        """Whether the consequence is there."""
        raise NotImplementedError


class DefaultProxyIsMade(Observable):
    async def holds(self, bench: Bench) -> bool:
        return bool(await bench.get(PROXY, "default"))


class WorkloadIsMade(Observable):
    async def holds(self, bench: Bench) -> bool:
        return bool(await bench.get(DEPLOYMENT, "mcp-proxy-default"))


class ConnectionHasStatus(Observable):
    async def holds(self, bench: Bench) -> bool:
        return condition(await bench.get(CONNECTION, "notes"), "Accepted").get("status") == "True"


class ProxyHasStatus(Observable):
    async def holds(self, bench: Bench) -> bool:
        return condition(await bench.get(PROXY, "default"), "Accepted").get("status") == "True"


class EventIsRecorded(Observable):
    async def holds(self, bench: Bench) -> bool:
        return any(each["involvedObject"]["kind"] == CONNECTION.kind for each in await bench.events())


class RepeatedEventIsCounted(Observable):
    async def act(self, bench: Bench) -> None:
        for _ in range(2):
            await bench.delete("secret/key")
            await until(lambda: accepted(bench, "notes", "False"))
            await bench.apply(secret("again"))
            await until(lambda: accepted(bench, "notes", "True"))

    async def holds(self, bench: Bench) -> bool:
        return any(each.get("count", 1) > 1 for each in await bench.events())


class NewConnectionIsSeen(Observable):
    async def act(self, bench: Bench) -> None:
        await bench.apply(connection(f"late-{self.turn}", f"http://127.0.0.1:9/{self.turn}"))

    async def holds(self, bench: Bench) -> bool:
        late = await bench.get(CONNECTION, f"late-{self.turn}")
        return bool(late.get("status", {}).get("observedGeneration"))


class NewProxyIsSeen(Observable):
    async def act(self, bench: Bench) -> None:
        await bench.apply(proxy(f"late-{self.turn}"))

    async def holds(self, bench: Bench) -> bool:
        return bool(await bench.get(DEPLOYMENT, f"mcp-proxy-late-{self.turn}"))


class SecretIsFollowed(Observable):
    async def act(self, bench: Bench) -> None:
        self._before = await self._mounts(bench)
        await bench.apply(secret(f"rotated-{self.turn}"))

    async def holds(self, bench: Bench) -> bool:
        return bool(await self._mounts(bench) != self._before)

    async def _mounts(self, bench: Bench) -> Any:
        return (await bench.get(SECRET, "mcp-proxy-default-mounts")).get("data")


class ConfigMapIsFollowed(Observable):
    async def act(self, bench: Bench) -> None:
        name = self._name
        ca = {"configMapKeyRef": {"name": name, "key": "ca.crt"}}
        await bench.apply(connection(name, f"https://127.0.0.1:9/{self.turn}", http={"caBundleRef": ca}))
        await until(lambda: accepted(bench, name, "False"))
        data = {"ca.crt": bench.authority}
        await bench.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})

    async def holds(self, bench: Bench) -> bool:
        return await accepted(bench, self._name, "True")

    @property
    def _name(self) -> str:
        return f"sealed-{self.turn}"


class DeletedDeploymentComesBack(Observable):
    async def act(self, bench: Bench) -> None:
        await until(lambda: self.holds(bench))
        await bench.delete("deployment/mcp-proxy-default")

    async def holds(self, bench: Bench) -> bool:
        return bool(await bench.get(DEPLOYMENT, "mcp-proxy-default"))


class BridgeIsMade(Observable):
    async def act(self, bench: Bench) -> None:
        await bench.apply(proxy("runs", stdio={"allowed": True}), command(f"command{self.turn}"))

    async def holds(self, bench: Bench) -> bool:
        return bool(await bench.get(DEPLOYMENT, bridge_name(f"command{self.turn}")))


class BridgeIsTakenAway(Observable):
    async def act(self, bench: Bench) -> None:
        made = BridgeIsMade()
        made.turn = self.turn
        await made.act(bench)
        await until(lambda: made.holds(bench))
        await bench.apply(command(f"command{self.turn}", enabled=False))

    async def holds(self, bench: Bench) -> bool:
        name = f"command{self.turn}"
        left = [await bench.get(kind, bridge_name(name)) for kind in BRIDGE_KINDS]
        return not any((*left, await bench.get(SECRET, token_secret_name(name))))


def command(name: str, **spec: Any) -> dict[str, Any]:
    """A stdio connection of the proxy ``runs``."""
    return stdio(name, "server", spec={"proxyRef": {"name": "runs"}, **spec})


class NewPodIsSeen(Observable):
    async def act(self, bench: Bench) -> None:
        template = (await bench.get(DEPLOYMENT, "mcp-proxy-default"))["spec"]["template"]
        metadata = {**template["metadata"], "name": f"made-by-hand-{self.turn}"}
        await bench.apply({"apiVersion": "v1", "kind": POD.kind, "metadata": metadata, "spec": template["spec"]})
        await bench.pod_is_ready(metadata["name"])

    async def holds(self, bench: Bench) -> bool:
        status = (await bench.get(PROXY, "default")).get("status", {})
        return bool(status.get("replicas", 0) > self.turn)


def secret(key: str) -> Object:
    """The Secret that a connection refers to."""
    data = {"key": base64.b64encode(key.encode()).decode()}
    return {"apiVersion": "v1", "kind": SECRET.kind, "metadata": {"name": "key"}, "data": data}


async def accepted(bench: Bench, name: str, status: str) -> bool:
    """Whether that is the status of a connection's Accepted condition."""
    return condition(await bench.get(CONNECTION, name), "Accepted").get("status") == status


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(LONGEST):
        while not await holds():
            await asyncio.sleep(LOOK)
