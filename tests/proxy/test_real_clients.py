"""The clients people use, the FastMCP and the MCP SDK's, against FastMCP backends: everything in a plain session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp.client import Client as SdkClient
from mcp.shared.exceptions import MCPError

from tests.backends.fastmcp_server import fastmcp_server, serving_fastmcp
from tests.proxy.desired import http, stdio
from tests.proxy.running import RunningProxy

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

CHILD = (sys.executable, "-IS", str(Path(__file__).parent.parent / "backends" / "stdio_child.py"))


class Seen:
    """What a client was told and asked."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.changes: asyncio.Queue[Any] = asyncio.Queue()

    async def log(self, message: Any) -> None:
        self.logs.append(message.data)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    async def elicit(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        return {"name": f"answer to {message}"}

    async def sample(self, messages: Any, params: Any, context: Any) -> str:
        return f"answer to {messages[0].content.text}"

    async def message(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.changes.put_nowait(message)


@pytest.fixture
async def mounted(proxy: RunningProxy) -> AsyncIterator[RunningProxy]:
    """A proxy in front of two FastMCP servers and a child process."""
    async with (
        serving_fastmcp(fastmcp_server("first")) as first,
        serving_fastmcp(fastmcp_server("second")) as second,
    ):
        await proxy.apply(http("a", first), http("b", second), stdio("c", *CHILD))
        await proxy.until_ready("a", "b", "c")
        yield proxy
        await proxy.registry.aclose()


@contextlib.asynccontextmanager
async def connected(proxy: RunningProxy) -> AsyncIterator[tuple[Client[Any], Seen]]:
    """A FastMCP client in a session of the handshake era, with all that a client can offer."""
    seen = Seen()
    client = Client(
        proxy.url,
        mode="legacy",
        timeout=30,
        roots=["file:///home/me"],
        sampling_handler=seen.sample,
        elicitation_handler=seen.elicit,
        log_handler=seen.log,
        progress_handler=seen.progressed,
        message_handler=seen.message,
    )
    async with client:
        yield client, seen


async def test_everything_of_two_servers_through_one_session(mounted: RunningProxy) -> None:
    async with connected(mounted) as (client, seen):
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert {"a_add", "b_add", "a_think", "c_whoami"} <= set(tools)
        assert tools["a_add"].annotations is not None
        assert tools["a_add"].annotations.read_only_hint
        for prefix, label in (("a", "first"), ("b", "second")):
            added = await client.call_tool(f"{prefix}_add", {"parts": [1, 2, 3]})
            assert added.structured_content == {"total": 6, "parts": [1, 2, 3]}

            worked = await client.call_tool(f"{prefix}_work", {"steps": 3})
            assert worked.data == "worked"
            assert seen.progress == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
            seen.progress.clear()

            assert (await client.call_tool(f"{prefix}_ask")).data == "accept: answer to Who are you?"
            assert (await client.call_tool(f"{prefix}_think")).data == "answer to What is up?"
            assert (await client.call_tool(f"{prefix}_whereabouts")).data == ["file:///home/me"]

            everything = await client.call_tool(f"{prefix}_everything")
            assert [block.type for block in everything.content] == ["text", "image", "resource_link"]
            assert everything.structured_content == {"uri": "data://config"}
            link = everything.content[2]
            assert isinstance(link, mcp_types.ResourceLink)
            assert text_of(await client.read_resource(link.uri)) == {"label": label}

            with pytest.raises(ToolError, match="as it should"):
                await client.call_tool(f"{prefix}_fail")

            messages = (await client.get_prompt(f"{prefix}_greet", {"name": "Ada"})).messages
            assert [message.role for message in messages] == ["user", "assistant"]
            assert f"Greet Ada of {label}." in str(messages[0].content)
        assert len(seen.logs) == 2
        assert text_of(await client.call_tool("c_whoami"))["calls"] == 1


async def test_templates_are_expanded_and_read(mounted: RunningProxy) -> None:
    async with connected(mounted) as (client, _):
        templates = [template.uri_template for template in await client.list_resource_templates()]
        assert templates == ["users://a/{user}/profile{?fields}", "users://b/{user}/profile{?fields}"]
        (content,) = await client.read_resource("users://b/ada/profile?fields=mail")
        assert isinstance(content, mcp_types.TextResourceContents)
        assert content.text == "second: ada (mail)"
        assert [str(resource.uri) for resource in await client.list_resources()] == [
            "data://a/config",
            "data://b/config",
        ]


async def test_cancelling_reaches_the_server_and_the_session_goes_on(mounted: RunningProxy) -> None:
    async with connected(mounted) as (client, _):
        calling = asyncio.create_task(client.call_tool("a_forever"))
        await mounted.until(lambda: mounted.report("a").in_flight == 1)
        calling.cancel()
        await mounted.until(lambda: mounted.report("a").in_flight == 0)
        assert (await client.call_tool("a_add", {"parts": [1]})).structured_content == {"total": 1, "parts": [1]}
        assert await client.ping()


async def test_a_client_hears_of_a_reload(mounted: RunningProxy) -> None:
    async with connected(mounted) as (client, seen):
        await client.call_tool("a_add", {"parts": []})
        kept = mounted.mount("a").spec
        await mounted.apply(kept)
        async with asyncio.timeout(20):
            await seen.changes.get()
        assert all(tool.name.startswith("a_") for tool in await client.list_tools())


async def test_the_sdk_client_validates_what_it_gets(mounted: RunningProxy) -> None:
    async with SdkClient(mounted.url, mode="legacy") as client:
        tools = (await client.list_tools()).tools
        add = next(tool for tool in tools if tool.name == "b_add")
        assert add.output_schema is not None
        result = await client.call_tool("b_add", {"parts": [2, 2]})
        assert result.structured_content == {"total": 4, "parts": [2, 2]}
        with pytest.raises(MCPError) as error:
            await client.read_resource("data://nobody/config")
        assert error.value.error.code == -32002
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("b_nothing", {})


async def test_many_clients_at_once_keep_to_their_own_sessions(mounted: RunningProxy) -> None:
    async def visit(number: int) -> Any:
        async with connected(mounted) as (client, seen):
            added = [client.call_tool("a_add", {"parts": [number, step]}) for step in range(5)]
            *sums, worked = await asyncio.gather(*added, client.call_tool("b_work", {"steps": 2}))
            assert [each.data.total for each in sums] == [number + step for step in range(5)]
            assert (worked.data, len(seen.progress)) == ("worked", 2)
            return text_of(await client.call_tool("c_whoami"))["calls"]

    assert await asyncio.gather(*(visit(number) for number in range(6))) == [1] * 6
    await mounted.until(lambda: mounted.report("c").sessions == 1)
    await mounted.until(lambda: mounted.report("a").sessions == 1)


def text_of(result: Any) -> Any:
    """The JSON in the first block or content."""
    (first, *_) = getattr(result, "content", result)
    return json.loads(first.text)
