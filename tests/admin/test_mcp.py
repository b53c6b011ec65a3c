"""``/admin/mcp`` through a real MCP client, in both protocol eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

from tests.admin.conftest import TOKEN, RememberingControl, mount


@pytest.fixture(params=["legacy", "auto"])
async def mcp(url: str, request: pytest.FixtureRequest) -> AsyncIterator[Client[Any]]:
    transport = StreamableHttpTransport(f"{url}/admin/mcp", headers={"Authorization": f"Bearer {TOKEN}"})
    async with Client(transport, mode=request.param, timeout=30) as client:
        yield client


async def test_the_tools(mcp: Client[Any]) -> None:
    tools = {tool.name: tool for tool in await mcp.list_tools()}
    assert set(tools) == {"list_mounts", "check_health", "reload", "plan"}
    for name, tool in tools.items():
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (name != "reload")
        assert tool.output_schema is not None


async def test_list_mounts(mcp: Client[Any], control: RememberingControl) -> None:
    control.mounts = (mount("github"), mount("jira", ready=False, reason="Unreachable"))
    result = await mcp.call_tool("list_mounts", {})
    assert result.structured_content == control.report().model_dump(by_alias=True, mode="json")


async def test_check_health(mcp: Client[Any], control: RememberingControl) -> None:
    control.mounts = (mount("github"), mount("jira", ready=False, reason="Timeout"))
    health = (await mcp.call_tool("check_health", {})).structured_content
    assert health is not None
    assert (health["healthy"], health["unhealthy"]) == (1, 1)
    assert [(one["connection"]["name"], one["reason"]) for one in health["connections"]] == [
        ("github", "Ready"),
        ("jira", "Timeout"),
    ]


async def test_reload(mcp: Client[Any], control: RememberingControl) -> None:
    result = (await mcp.call_tool("reload", {})).structured_content
    assert result is not None
    assert [one["name"] for one in result["kept"]] == ["github"]
    assert control.reloads == 1


async def test_plan(mcp: Client[Any]) -> None:
    result = (await mcp.call_tool("plan", {})).structured_content
    assert result is not None
    assert result["unchanged"] is False
    assert "hunter2" not in str(result)
    assert [(one["action"], one["connection"]["name"]) for one in result["actions"]] == [
        ("keep", "github"),
        ("add", "new"),
    ]


@pytest.mark.parametrize("tool", ["reload", "plan"])
async def test_a_broken_source_is_told(mcp: Client[Any], control: RememberingControl, tool: str) -> None:
    control.broken_source = "a.yaml: spec.prefix: must not be a list. Correct it and reload."
    with pytest.raises(ToolError, match=r"a\.yaml: spec\.prefix: must not be a list"):
        await mcp.call_tool(tool, {})


@pytest.mark.parametrize("path", ["/admin/mcp", "/admin/mcp/"])
async def test_no_redirect(admin: aiohttp.ClientSession, url: str, path: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Accept": "application/json, text/event-stream"}
    async with admin.post(f"{url}{path}", json=body, headers=headers, allow_redirects=False) as response:
        assert response.status == 200, await response.text()
