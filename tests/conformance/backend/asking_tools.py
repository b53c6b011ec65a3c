"""Tools that ask the client something before they answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    InputRequest,
    ListRootsResult,
    TextContent,
)

from tests.conformance.backend.definition import Run, text, tool
from tests.conformance.backend.questions import (
    BOOLEAN,
    STRING,
    Answers,
    Questions,
    ask,
    field,
    form,
    roots,
    said,
    sample,
)
from tests.conformance.backend.state import Context, State

Conclude = Callable[[Answers], str]


def _once(questions: Questions, conclude: Conclude, request_state: str | None = None) -> Run:
    """Ask these questions, then answer with what ``conclude`` makes of the answers."""

    async def run(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
        answers = await ask(ctx, params.input_responses, questions, request_state)
        return text(conclude(answers))

    return run


def _with(question: Callable[[str], InputRequest], argument: str, conclude: Conclude) -> Run:
    """Ask one question that an argument of the tool words."""

    async def run(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
        words = str((params.arguments or {}).get(argument, ""))
        return text(conclude(await ask(ctx, params.input_responses, {"question": question(words)})))

    return run


def _filled_in(answers: Answers) -> str:
    answer = said(answers, "question", ElicitResult)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content or {})}"


def _sampled(answers: Answers, key: str = "question") -> str:
    answer = said(answers, key, CreateMessageResult).content
    return answer.text if isinstance(answer, TextContent) else "no text"


def _count_roots(answers: Answers) -> int:
    return len(said(answers, "client_roots", ListRootsResult).roots)


async def _multi_round(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    """The name is asked for first and comes back with the state, then the colour."""
    before = json.loads(params.request_state) if params.request_state else {}
    if "name" not in before:
        first = {"step1": form("Step 1: What is your name?", name=STRING)}
        answers = await ask(ctx, params.input_responses, first, json.dumps({"round": 1}))
        before = {"round": 2, "name": field(answers, "step1", "name")}
        responses = None
    else:
        responses = params.input_responses
    second = {"step2": form("Step 2: What is your favorite color?", color=STRING)}
    answers = await ask(ctx, responses, second, json.dumps(before))
    return text(f"{before['name']} likes {field(answers, 'step2', 'color')}")


async def _as_far_as_declared(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    """Ask only what the client says it can answer."""
    declared = ctx.session.client_capabilities
    questions: dict[str, InputRequest] = {}
    if declared is not None and declared.elicitation is not None:
        questions["elicit_input"] = form("Elicitation input", value=STRING)
    if declared is not None and declared.sampling is not None:
        questions["sample_input"] = sample("Sample request")
    answers = await ask(ctx, params.input_responses, questions, "capabilities")
    return text(f"Answered: {', '.join(sorted(answers))}")


async def _streaming(ctx: Context, params: CallToolRequestParams, state: State) -> CallToolResult:
    await ctx.session.report_progress(50, 100)
    answers = await ask(ctx, params.input_responses, {"question": form("Go on?", ok=BOOLEAN)})
    return text(_filled_in(answers))


def _field(kind: str, description: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **members}


def _titled(**titles: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titles.items()]


DEFAULTS = {
    "name": _field("string", "Name", default="John Doe"),
    "age": _field("integer", "Age", default=30),
    "score": _field("number", "Score", default=95.5),
    "status": _field("string", "Status", enum=["active", "inactive", "pending"], default="active"),
    "verified": _field("boolean", "Verified", default=True),
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = _titled(value1="First", value2="Second", value3="Third")
ENUMS = {
    "untitledSingle": _field("string", "One", enum=_OPTIONS),
    "titledSingle": _field("string", "One with a title", oneOf=_TITLED),
    "legacyEnum": _field("string", "One, the old way", enum=["opt1", "opt2"], enumNames=["Option One", "Option Two"]),
    "untitledMulti": _field("array", "Several", items={"type": "string", "enum": _OPTIONS}),
    "titledMulti": _field("array", "Several with a title", items={"anyOf": _TITLED}),
}
_PROMPT = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
_MESSAGE = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

_NAME: Questions = {"user_name": form("What is your name?", name=STRING)}
_CAPITAL: Questions = {"capital_question": sample("What is the capital of France?")}
_ROOTS: Questions = {"client_roots": roots()}
_CONFIRM: Questions = {"confirm": form("Please confirm", ok=BOOLEAN)}
_ALL: Questions = {**_NAME, "greeting": sample("Generate a greeting"), **_ROOTS}


def _greeted(answers: Answers) -> str:
    return f"{_sampled(answers, 'greeting')}, {field(answers, 'user_name', 'name')}: {_count_roots(answers)} roots"


ASKING_TOOLS = (
    tool("test_sampling", "Has the client's model answer", _with(sample, "prompt", _sampled), _PROMPT),
    tool(
        "test_elicitation",
        "Asks the user",
        _with(lambda message: form(message, response=STRING), "message", _filled_in),
        _MESSAGE,
    ),
    tool(
        "test_elicitation_sep1034_defaults",
        "Asks with defaults",
        _once({"question": form("Check the defaults", DEFAULTS)}, _filled_in),
    ),
    tool(
        "test_elicitation_sep1330_enums",
        "Asks to choose",
        _once({"question": form("Choose", ENUMS)}, _filled_in),
    ),
    tool(
        "test_input_required_result_elicitation",
        "Asks for a name",
        _once(_NAME, lambda answers: f"Hello, {field(answers, 'user_name', 'name')}!"),
    ),
    tool(
        "test_input_required_result_sampling",
        "Asks the model",
        _once(_CAPITAL, lambda answers: _sampled(answers, "capital_question")),
    ),
    tool(
        "test_input_required_result_list_roots",
        "Asks for the roots",
        _once(_ROOTS, lambda answers: f"{_count_roots(answers)} roots"),
    ),
    tool(
        "test_input_required_result_request_state",
        "Remembers by requestState",
        _once(_CONFIRM, lambda answers: f"state-ok: {field(answers, 'confirm', 'ok')}", "remembered"),
    ),
    tool(
        "test_input_required_result_tampered_state",
        "Notices a changed requestState",
        _once(_CONFIRM, lambda answers: f"integrity-ok: {field(answers, 'confirm', 'ok')}", "sealed"),
    ),
    tool(
        "test_input_required_result_multiple_inputs",
        "Asks three things at once",
        _once(_ALL, _greeted, "all"),
    ),
    tool("test_input_required_result_multi_round", "Asks twice", _multi_round),
    tool("test_input_required_result_capabilities", "Asks what can be answered", _as_far_as_declared),
    tool("test_streaming_elicitation", "Reports progress, then asks", _streaming),
)
