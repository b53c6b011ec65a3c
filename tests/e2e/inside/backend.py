"""An MCP server whose tools tell what a test has to know. The product's image has what it needs."""

from __future__ import annotations

import asyncio
import os
import socket

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_request
from mcp_types import ToolListChangedNotification

server: FastMCP[None] = FastMCP("backend")
may_go = asyncio.Event()
held = 0


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def whereami() -> str:
    """Name of the pod."""
    return socket.gethostname()


@server.tool
def header(name: str) -> str:
    """Value of a header that the call came with."""
    return get_http_request().headers.get(name, "")


@server.tool
async def hold() -> str:
    """Answer once somebody lets go."""
    global held
    held += 1
    try:
        await may_go.wait()
    finally:
        held -= 1
    return "let go"


@server.tool
async def holding() -> int:
    """How many calls are held."""
    return held


@server.tool
async def let_go() -> None:
    """Let the held calls go."""
    may_go.set()
    while held:
        await asyncio.sleep(0.01)
    may_go.clear()


@server.tool
async def grow(name: str, context: Context) -> None:
    """Have one more tool."""
    server.tool(whereami, name=name)
    await context.send_notification(ToolListChangedNotification())


if __name__ == "__main__":
    server.run(transport="http", host="0.0.0.0", port=int(os.environ["PORT"]), path="/mcp")
