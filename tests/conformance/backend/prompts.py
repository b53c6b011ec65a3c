"""Prompts, one of which asks back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ContentBlock,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    TextResourceContents,
)

from tests.conformance.backend.media import PNG
from tests.conformance.backend.questions import STRING, ask, field, form
from tests.conformance.backend.state import Context

Get = Callable[[Context, GetPromptRequestParams], Awaitable[GetPromptResult]]


def _says(*content: ContentBlock) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in content])


def _argument(params: GetPromptRequestParams, name: str) -> str:
    try:
        return (params.arguments or {})[name]
    except KeyError:
        raise MCPError(INVALID_PARAMS, f"the argument {name} of prompt {params.name} is missing") from None


async def _simple(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    return _says(TextContent(text="This is a simple prompt for testing."))


async def _with_arguments(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    first, second = _argument(params, "arg1"), _argument(params, "arg2")
    return _says(TextContent(text=f"Prompt with arguments: arg1='{first}', arg2='{second}'"))


async def _with_resource(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    contents = TextResourceContents(
        uri=_argument(params, "resourceUri"), mime_type="text/plain", text="Embedded resource content for testing."
    )
    question = TextContent(text="Please process the embedded resource above.")
    return _says(EmbeddedResource(resource=contents), question)


async def _with_image(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    return _says(
        ImageContent(data=PNG, mime_type="image/png"),
        TextContent(text="Please analyze the image above."),
    )


async def _asks_back(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    questions = {"user_context": form("What context should the prompt use?", context=STRING)}
    answers = await ask(ctx, params.input_responses, questions)
    return _says(TextContent(text=f"Prompt with context: {field(answers, 'user_context', 'context')}"))


def _prompt(name: str, description: str, *arguments: str) -> Prompt:
    required = [PromptArgument(name=each, description=f"Argument {each}", required=True) for each in arguments]
    return Prompt(name=name, description=description, arguments=required or None)


PROMPTS: dict[str, tuple[Prompt, Get]] = {
    prompt.name: (prompt, get)
    for prompt, get in (
        (_prompt("test_simple_prompt", "Has no arguments"), _simple),
        (_prompt("test_prompt_with_arguments", "Repeats its arguments", "arg1", "arg2"), _with_arguments),
        (_prompt("test_prompt_with_embedded_resource", "Has a resource", "resourceUri"), _with_resource),
        (_prompt("test_prompt_with_image", "Has an image"), _with_image),
        (_prompt("test_input_required_result_prompt", "Asks the user first"), _asks_back),
    )
}


async def get(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    """Raises MCPError (-32602) for an unknown prompt, InputNeeded where the user has to be asked."""
    if params.name not in PROMPTS:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return await PROMPTS[params.name][1](ctx, params)
