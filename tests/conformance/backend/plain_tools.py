"""Tools that answer at once, log, report progress, change lists or end their stream."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    LoggingLevel,
    TextContent,
    TextResourceContents,
)

from tests.conformance.backend.definition import content, text, tool
from tests.conformance.backend.media import PNG, WAV
from tests.conformance.backend.resources import WATCHED
from tests.conformance.backend.state import Context, State

STEP_SECONDS = 0.05
"""Between two messages of one tool, so that they cannot arrive as one."""


async def _simple_text(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    return text("This is a simple text response for testing.")


async def _image(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    return content(ImageContent(data=PNG, mime_type="image/png"))


async def _audio(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    return content(AudioContent(data=WAV, mime_type="audio/wav"))


async def _embedded(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    words = "This is an embedded resource content."
    contents = TextResourceContents(uri="test://embedded-resource", mime_type="text/plain", text=words)
    return content(EmbeddedResource(resource=contents))


async def _mixed(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    data = json.dumps({"test": "data", "value": 123})
    contents = TextResourceContents(uri="test://mixed-content-resource", mime_type="application/json", text=data)
    return content(
        TextContent(text="Multiple content types test:"),
        ImageContent(data=PNG, mime_type="image/png"),
        EmbeddedResource(resource=contents),
    )


async def _error(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    words = "This tool intentionally returns an error for testing"
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


async def _arguments(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    return text(json.dumps(params.arguments or {}, sort_keys=True))


async def _log(ctx: Context, level: LoggingLevel, words: str) -> None:
    await ctx.session.send_log_message(level, words, related_request_id=ctx.request_id)


async def _logging(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    await _log(ctx, "info", "Tool execution started")
    await asyncio.sleep(STEP_SECONDS)
    await _log(ctx, "info", "Tool processing data")
    await asyncio.sleep(STEP_SECONDS)
    await _log(ctx, "info", "Tool execution completed")
    return text("Tool with logging executed successfully")


async def _progress(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(STEP_SECONDS)
    return text("Tool with progress executed successfully")


async def _reconnection(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(4 * STEP_SECONDS)
    return text("Reconnection test completed")


async def _missing_capability(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        missing: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", missing)
    return text("The client can sample")


async def _change_tools(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    await state.change_tools()
    return text("The list of tools has changed")


async def _change_prompts(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    await state.change_prompts()
    return text("The list of prompts has changed")


async def _change_resource(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    await state.change_resource(WATCHED)
    return text("The watched resource has changed")


JSON_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
ARGUMENT_IN_HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "count": {"type": "integer"}},
    "required": ["region"],
}

PLAIN_TOOLS = (
    tool("test_simple_text", "Answers with a text", _simple_text),
    tool("test_image_content", "Answers with an image", _image),
    tool("test_audio_content", "Answers with a sound", _audio),
    tool("test_embedded_resource", "Answers with a resource", _embedded),
    tool("test_multiple_content_types", "Answers with a text, an image and a resource", _mixed),
    tool("test_error_handling", "Fails", _error),
    tool("test_tool_with_logging", "Logs three times", _logging),
    tool("test_logging_tool", "Logs three times", _logging),
    tool("test_tool_with_progress", "Reports progress three times", _progress),
    tool("test_reconnection", "Ends its stream before it answers", _reconnection),
    tool("test_missing_capability", "Needs a client that can sample", _missing_capability),
    tool("test_trigger_tool_change", "Changes the list of tools", _change_tools),
    tool("test_trigger_prompt_change", "Changes the list of prompts", _change_prompts),
    tool("test_trigger_resource_change", "Changes the watched resource", _change_resource),
    tool("json_schema_2020_12_tool", "Has a schema of many keywords", _arguments, JSON_SCHEMA_2020_12),
    tool("test_argument_in_header", "Has an argument that is repeated in a header", _arguments, ARGUMENT_IN_HEADER),
)
