"""A backend built with FastMCP: what most servers behind the proxy are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.tools import ToolResult
from mcp_types import ImageContent, ResourceLink, SamplingMessage, TextContent
from pydantic import BaseModel, Field

from tests.backends.http_server import serving


class Sum(BaseModel):
    """A structured result."""

    total: int
    parts: list[int]


class Name(BaseModel):
    """What is asked for by elicitation."""

    name: str


def fastmcp_server(label: str) -> FastMCP[Any]:
    """A server with something of everything."""
    server: FastMCP[Any] = FastMCP(label, instructions=f"Instructions of {label}.")
    _add_plain_tools(server, label)
    _add_asking_tools(server)
    _add_resources(server, label)

    @server.prompt
    def greet(name: str) -> list[Message]:
        """Greet somebody."""
        return [Message(f"Greet {name} of {label}."), Message("Hello!", role="assistant")]

    return server


def _add_plain_tools(server: FastMCP[Any], label: str) -> None:
    @server.tool(annotations={"readOnlyHint": True}, meta={"team": label})
    def add(parts: Annotated[list[int], Field(description="what to add")]) -> Sum:
        """Add numbers."""
        return Sum(total=sum(parts), parts=parts)

    @server.tool
    async def work(steps: int, ctx: Context) -> str:
        """Report progress and write log messages."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await ctx.info(f"{steps} steps done")
        return "worked"

    @server.tool
    async def forever(ctx: Context) -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "unreachable"

    @server.tool
    def everything() -> ToolResult:
        """Blocks of several kinds."""
        return ToolResult(
            content=[
                TextContent(type="text", text="text"),
                ImageContent(type="image", data="iVBORw0=", mime_type="image/png"),
                ResourceLink(type="resource_link", uri="data://config", name="config"),
            ],
            structured_content={"uri": "data://config"},
            meta={"elapsed": 1.5},
        )

    @server.tool
    def fail() -> str:
        """Fail."""
        raise ValueError("as it should")


def _add_asking_tools(server: FastMCP[Any]) -> None:
    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the user."""
        answer = await ctx.elicit("Who are you?", Name)
        return f"{answer.action}: {answer.data.name if answer.action == 'accept' else ''}"

    @server.tool
    async def think(ctx: Context) -> str:
        """Have the client's model answer."""
        question = SamplingMessage(role="user", content=TextContent(type="text", text="What is up?"))
        answer = await ctx.session.create_message([question], max_tokens=10)
        return str(getattr(answer.content, "text", ""))

    @server.tool
    async def whereabouts(ctx: Context) -> list[str]:
        """The client's roots, which FastMCP asks for outside the call."""
        return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


def _add_resources(server: FastMCP[Any], label: str) -> None:
    @server.resource("data://config", mime_type="application/json")
    def config() -> str:
        """A resource."""
        return f'{{"label":"{label}"}}'

    @server.resource("users://{user}/profile{?fields}")
    def profile(user: str, fields: str = "all") -> str:
        """A template."""
        return f"{label}: {user} ({fields})"


@contextlib.asynccontextmanager
async def serving_fastmcp(server: FastMCP[Any]) -> AsyncIterator[str]:
    """A FastMCP server on a free port; the URL of its endpoint.

    It lives in a task of its own, as its session manager has to be left in the task it was entered in.
    """
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def serve() -> None:
        app = server.http_app(path="/mcp")
        async with app.router.lifespan_context(app), serving(app) as http:
            started.set_result(f"{http.origin}/mcp")
            await over.wait()

    task = asyncio.create_task(serve())
    either: set[asyncio.Future[Any]] = {task, started}
    await asyncio.wait(either, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield started.result()
    finally:
        over.set()
        await task
