"""One namespace with everything in it: an operator, a kubelet, and what a user does and sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from mcp_connections.operator.cluster import (
    CONNECTION,
    DEPLOYMENT,
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
from tests.operator.kubelet import Kubelet
from tests.operator.operator_process import OperatorProcess

TIMEOUT = 90.0
"""Seconds that anything may take on a busy machine."""
LOOK = 0.05


class World:
    """What a test acts through."""

    def __init__(
        self, plane: ControlPlane, namespace: str, cluster: Cluster, kubelet: Kubelet, operator: OperatorProcess
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self.cluster = cluster
        self.kubelet = kubelet
        self.operator = operator

    async def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> CompletedProcess[str]:  # noqa: A002
        """Run kubectl in the namespace, without standing in the way of what runs in this process."""
        return await asyncio.to_thread(self.plane.kubectl, "-n", self.namespace, *args, input=input, check=check)

    async def apply(self, *manifests: Mapping[str, Any]) -> None:
        """kubectl apply."""
        await self.kubectl(
            "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        )

    async def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        """Merge ``spec`` into that of a connection."""
        await self.kubectl("patch", "mcpc", name, "--type=merge", "-p", json.dumps({"spec": spec}))

    async def connection(self, name: str) -> Object:
        """The connection as it is now."""
        return await self._get(CONNECTION, name)

    async def proxy(self, name: str = "default") -> Object:
        """The McpProxy as it is now."""
        return await self._get(PROXY, name)

    async def until(
        self,
        kind: Kind,
        name: str,
        holds: Callable[[Object], bool],
        *,
        what: str = "what was waited for",
        timeout: float = TIMEOUT,
    ) -> Object:
        """Wait until ``holds`` of the object."""
        last: Object | None = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    last = await self.cluster.get(kind, self.namespace, name)
                    if last is not None and holds(last):
                        return last
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            shown = json.dumps((last or {}).get("status"), indent=1)
            raise AssertionError(f"{kind.kind} {name} did not come to {what}; status: {shown}\n{self.logs()}") from None

    async def until_condition(self, name: str, kind: str, status: str, reason: str | None = None) -> Object:
        """Wait until a connection's condition says so of its present generation."""

        def holds(live: Object) -> bool:
            found = condition(live, kind)
            return (
                found.get("status") == status
                and found.get("observedGeneration") == live["metadata"]["generation"]
                and (reason is None or found["reason"] == reason)
            )

        return await self.until(CONNECTION, name, holds, what=f"{kind}={status} {reason or ''}")

    async def until_proxy_condition(self, kind: str, status: str, reason: str | None = None) -> Object:
        """Wait until the default McpProxy's condition says so."""

        def holds(live: Object) -> bool:
            found = condition(live, kind)
            return found.get("status") == status and (reason is None or found["reason"] == reason)

        return await self.until(PROXY, "default", holds, what=f"{kind}={status} {reason or ''}")

    async def until_ready(self, name: str) -> Object:
        """Wait until a connection is ready as it is now."""
        return await self.until_condition(name, "Ready", "True")

    async def until_programmed(self, name: str = "default") -> Object:
        """Wait until every pod has what it should."""
        return await self.until(
            PROXY, name, lambda live: condition(live, "Programmed").get("status") == "True", what="Programmed=True"
        )

    async def until_pods(self, count: int) -> list[str]:
        """Wait until that many pods are ready, and return their names."""
        async with asyncio.timeout(TIMEOUT):
            while len(self.kubelet.ready_pods) != count:
                await asyncio.sleep(LOOK)
        return [pod.name for pod in self.kubelet.ready_pods]

    async def endpoint(self) -> str:
        """URL of a ready pod."""
        async with asyncio.timeout(TIMEOUT):
            while not self.kubelet.ready_pods:
                await asyncio.sleep(LOOK)
        return self.kubelet.ready_pods[0].url

    async def tools(self) -> list[str]:
        """Names of all tools that a client sees."""
        async with Client(await self.endpoint(), timeout=TIMEOUT) as client:
            return sorted(tool.name for tool in await client.list_tools())

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a client gets for a call."""
        async with Client(await self.endpoint(), timeout=TIMEOUT) as client:
            return (await client.call_tool(tool, arguments)).data

    async def call_text(self, tool: str, **arguments: Any) -> str:
        """The text that a client gets for a call."""
        async with Client(await self.endpoint(), timeout=TIMEOUT) as client:
            block: Any = (await client.call_tool(tool, arguments)).content[0]
            return str(block.text)

    async def until_call(self, tool: str, holds: Callable[[str], bool]) -> str:
        """Call until ``holds`` of the answer; failures on the way there do not count."""
        last = "nothing"
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    try:
                        last = await self.call_text(tool)
                    except (ToolError, MCPError) as error:
                        last = str(error)
                    else:
                        if holds(last):
                            return last
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise AssertionError(f"{tool} answers: {last}\n{self.logs()}") from None

    async def until_tools(self, names: list[str]) -> None:
        """Wait until a client sees exactly these tools."""
        last: list[str] = []
        try:
            async with asyncio.timeout(TIMEOUT):
                while (last := await self.tools()) != names:
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise AssertionError(f"the tools are {last}\n{self.logs()}") from None

    async def until_no_bridge(self, connection: str) -> None:
        """Wait until nothing is left of the pod of a stdio connection and of what belongs to it."""
        name = bridge_name(connection)
        kinds = (SECRET, SERVICE_ACCOUNT, SERVICE, NETWORK_POLICY, DEPLOYMENT, POD)
        left: list[str] = []
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    lists = [await self.cluster.list_all(kind, self.namespace) for kind in kinds]
                    names = [obj["metadata"]["name"] for objects in lists for obj in objects]
                    left = [each for each in names if each.startswith(name)]
                    if not left:
                        return
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise AssertionError(f"still there: {left}\n{self.logs()}") from None

    def logs(self) -> str:
        """What operator and pods wrote last."""
        files = [self.operator.log, *(pod.log for pod in self.kubelet.pods.values())]
        return "\n".join(f"--- {path.parent.name}/{path.name}\n{_tail(path)}" for path in files if path.exists())

    async def _get(self, kind: Kind, name: str) -> Object:
        found = await self.cluster.get(kind, self.namespace, name)
        assert found is not None, f"there is no {kind.kind} {name}"
        return found


def connection(name: str, url: str, **spec: Any) -> dict[str, Any]:
    """An McpConnection by URL."""
    http = {"url": url, **spec.pop("http", {})}
    return {
        "apiVersion": CONNECTION.api_version,
        "kind": CONNECTION.kind,
        "metadata": {"name": name},
        "spec": {"transport": {"http": http}, **spec},
    }


def stdio(name: str, *command: str, env: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    """A stdio connection."""
    manifest = connection(name, "", **fields.pop("spec", {}))
    manifest["spec"]["transport"] = {"stdio": {"command": list(command), "env": env or [], **fields}}
    return manifest


def proxy(name: str = "default", **spec: Any) -> dict[str, Any]:
    """An McpProxy."""
    return {"apiVersion": PROXY.api_version, "kind": PROXY.kind, "metadata": {"name": name}, "spec": spec}


def condition(live: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One condition of an object, empty if it has none of that type."""
    conditions: list[dict[str, Any]] = live.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _tail(path: Path, lines: int = 30) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
