"""A tool and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from mcp_types import CallToolRequestParams, CallToolResult, ContentBlock, TextContent, Tool

from tests.conformance.backend.state import Context, State

Run = Callable[[Context, CallToolRequestParams, State], Awaitable[CallToolResult]]


class ToolDefinition(NamedTuple):
    """One tool of the server."""

    tool: Tool
    run: Run


def tool(name: str, description: str, run: Run, schema: Mapping[str, Any] | None = None) -> ToolDefinition:
    """A tool; without a schema one that takes no arguments."""
    input_schema = dict(schema) if schema is not None else {"type": "object", "properties": {}}
    return ToolDefinition(Tool(name=name, description=description, input_schema=input_schema), run)


def content(*blocks: ContentBlock) -> CallToolResult:
    """A result of these blocks."""
    return CallToolResult(content=list(blocks))


def text(words: str) -> CallToolResult:
    """A result of one text."""
    return content(TextContent(text=words))
