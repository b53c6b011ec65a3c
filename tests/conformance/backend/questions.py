"""Asking the client something in the middle of a request, the way its era knows.

Up to 2025-11-25 the server sends a request of its own and waits; from 2026-07-28 on it answers ``input_required`` and
gets the answers with the client's next attempt (2026-07-28, basic/patterns/mrtr).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.conformance.backend.state import Context

Questions = Mapping[str, InputRequest]
Answers = Mapping[str, InputResponse]
Answer = TypeVar("Answer", ElicitResult, CreateMessageResult, ListRootsResult)

STRING: Mapping[str, Any] = {"type": "string"}
BOOLEAN: Mapping[str, Any] = {"type": "boolean"}


class InputNeeded(Exception):
    """Answer the request with this."""

    def __init__(self, questions: Questions, state: str | None) -> None:
        super().__init__("the client has to be asked first")
        self.result = InputRequiredResult(input_requests=dict(questions), request_state=state)


def form(message: str, optional: Mapping[str, Any] | None = None, **required: Mapping[str, Any]) -> ElicitRequest:
    """Have the user fill in a form of these fields."""
    fields = {**(optional or {}), **required}
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": list(required)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str) -> CreateMessageRequest:
    """Have the client's model say something."""
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def roots() -> ListRootsRequest:
    """Have the client list its roots."""
    return ListRootsRequest()


async def ask(ctx: Context, answers: Answers | None, questions: Questions, state: str | None = None) -> Answers:
    """The answers to ``questions``; ``answers`` are those that came with the request.

    Raises InputNeeded where some have to come with the next attempt; ``state`` comes back with it.
    """
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if any(key not in (answers or {}) for key in questions):
            raise InputNeeded(questions, state)
        return answers or {}
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answered = await asyncio.gather(*(_send(ctx, question, related) for question in questions.values()))
    return dict(zip(questions, answered, strict=True))


async def _send(ctx: Context, question: InputRequest, related: ServerMessageMetadata) -> InputResponse:
    if isinstance(question, ElicitRequest):
        return await ctx.session.send_request(question, ElicitResult, metadata=related)
    if isinstance(question, CreateMessageRequest):
        return await ctx.session.send_request(question, CreateMessageResult, metadata=related)
    return await ctx.session.send_request(question, ListRootsResult, metadata=related)


def said(answers: Answers, key: str, kind: type[Answer]) -> Answer:
    """The answer to one question. Raises TypeError where it is an answer to another kind of question."""
    answer = answers[key]
    if not isinstance(answer, kind):
        raise TypeError(f"inputResponses.{key} is no {kind.__name__}")
    return answer


def field(answers: Answers, key: str, name: str) -> str:
    """What the user filled in; "unknown" where nothing."""
    return str((said(answers, key, ElicitResult).content or {}).get(name, "unknown"))
