"""Operator, proxy and backend as pods: what a user applies becomes callable, inside the cluster and out."""

from __future__ import annotations

import json
from typing import Any

from fastmcp import Client

from tests.e2e.kubectl import Object
from tests.e2e.pods import PORT, TOOLS, mcp_connection, output_of, run_inside
from tests.e2e.port_forward import port_forward
from tests.e2e.release import SERVICE, Release

MOUNTED = [f"numbers_{tool}" for tool in TOOLS]
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


async def test_a_tool_is_called_from_outside(served: Release) -> None:
    async with port_forward(served.kubectl, SERVICE, "http") as address, Client(f"http://{address}/mcp") as client:
        assert sorted(tool.name for tool in await client.list_tools()) == MOUNTED
        assert (await client.call_tool("numbers_add", {"a": 20, "b": 22})).data == 42
        assert (await client.call_tool("numbers_whereami", {})).data == "numbers"


def test_a_tool_is_called_from_a_pod(served: Release, image: str) -> None:
    """By the address that the McpProxy names in its status."""
    endpoint = served.kubectl.until("mcpp", "default", is_programmed)["status"]["endpoint"]

    found = json.loads(output_of(served.kubectl, {"image": image, "command": ["python3", "-c", CLIENT, endpoint]}))

    assert found == {"tools": MOUNTED, "answer": 5}


async def test_a_connection_comes_and_goes_without_a_new_pod(served: Release) -> None:
    before = served.proxy_uids()

    async with port_forward(served.kubectl, SERVICE, "http") as address, Client(f"http://{address}/mcp") as client:
        served.kubectl.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp"))
        served.kubectl.wait("condition=Ready", "mcpc", "more")
        assert (await client.call_tool("more_add", {"a": 1, "b": 1})).data == 2
        served.kubectl.run("delete", "mcpc", "more")
        served.kubectl.until("mcpp", "default", lambda live: mounted(live) == 1)
        assert (await client.call_tool("numbers_add", {"a": 1, "b": 1})).data == 2

    assert served.proxy_uids() == before


async def test_no_pod_has_rights_beyond_its_namespace(served: Release) -> None:
    """The operator's none in another, the proxy's none at all, by the credentials that are in them."""
    (operator,), (proxy,) = served.operator_pods(), served.proxy_pods()
    places = (served.namespace, "kube-system", "default", "")

    tried = [
        json.loads(await run_inside(served.kubectl, pod["metadata"]["name"], "try_secrets.py", *places))
        for pod in (operator, proxy)
    ]

    assert tried == [[200, 403, 403, 403], [None] * 4]


def is_programmed(live: Object) -> bool:
    conditions: list[dict[str, Any]] = live.get("status", {}).get("conditions", [])
    return any(each["type"] == "Programmed" and each["status"] == "True" for each in conditions)


def mounted(live: Object) -> int:
    return int(live["status"]["connections"]["total"])
