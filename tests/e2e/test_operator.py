"""Operator, proxy and backend as pods: what a user applies becomes callable, inside the cluster and out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.operator_pod import operator_objects
from tests.e2e.pods import PORT, backend, mcp_connection, mcp_proxy, output_of
from tests.e2e.port_forward import port_forward

SERVICE = "service/mcp-proxy-default"
CLIENT = """
import asyncio, json, sys
from fastmcp import Client

async def main():
    async with Client(sys.argv[1]) as client:
        tools = sorted(tool.name for tool in await client.list_tools())
        answer = await client.call_tool("numbers_add", {"a": 2, "b": 3})
        print(json.dumps({"tools": tools, "answer": answer.data}))

asyncio.run(main())
"""


@pytest.fixture
def installed(kubectl: Kubectl, image: str) -> Kubectl:
    """A namespace with an operator, a backend, and one connection to it that is ready."""
    assert kubectl.namespace is not None
    kubectl.apply(
        *operator_objects(kubectl.namespace, image),
        *backend("numbers", image),
        mcp_proxy(replicas=1),
        mcp_connection("numbers", f"http://numbers:{PORT}/mcp"),
    )
    kubectl.wait("condition=Ready", "mcpc", "numbers")
    return kubectl


async def test_a_tool_is_called_from_outside(installed: Kubectl) -> None:
    async with port_forward(installed, SERVICE, "http") as address, Client(f"http://{address}/mcp") as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["numbers_add", "numbers_whereami"]
        assert (await client.call_tool("numbers_add", {"a": 20, "b": 22})).data == 42
        assert (await client.call_tool("numbers_whereami", {})).data == "numbers"


def test_a_tool_is_called_from_a_pod(installed: Kubectl, image: str) -> None:
    """By the address that the McpProxy names in its status."""
    endpoint = installed.until("mcpp", "default", is_programmed)["status"]["endpoint"]

    found = json.loads(output_of(installed, {"image": image, "command": ["python3", "-c", CLIENT, endpoint]}))

    assert found == {"tools": ["numbers_add", "numbers_whereami"], "answer": 5}


async def test_a_connection_comes_and_goes_without_a_new_pod(installed: Kubectl, image: str) -> None:
    before = proxy_pods(installed)

    async with port_forward(installed, SERVICE, "http") as address, Client(f"http://{address}/mcp") as client:
        installed.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp"))
        installed.wait("condition=Ready", "mcpc", "more")
        assert (await client.call_tool("more_add", {"a": 1, "b": 1})).data == 2
        installed.run("delete", "mcpc", "more")
        installed.until("mcpp", "default", lambda live: mounted(live) == 1)
        assert (await client.call_tool("numbers_add", {"a": 1, "b": 1})).data == 2

    assert proxy_pods(installed) == before


def is_programmed(live: Object) -> bool:
    conditions: list[dict[str, Any]] = live.get("status", {}).get("conditions", [])
    return any(each["type"] == "Programmed" and each["status"] == "True" for each in conditions)


def mounted(live: Object) -> int:
    return int(live["status"]["connections"]["total"])


def proxy_pods(kubectl: Kubectl) -> str:
    """Names, ids and restarts of the pods of proxies."""
    return kubectl.run(
        *("get", "pods", "--selector=app.kubernetes.io/name=mcp-proxy"),
        "--output=jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}",
    )
