"""A server that has what the scenarios of the suite ask for, in both protocol eras, over streamable HTTP.

``python -m tests.conformance.server [--eras both|handshake|stateless]`` serves on a free port and prints its URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
from typing import Any, Literal

import uvicorn
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.conformance.backend import prompts, resources
from tests.conformance.backend.asking_tools import ASKING_TOOLS
from tests.conformance.backend.definition import text
from tests.conformance.backend.event_store import RecentEvents
from tests.conformance.backend.plain_tools import PLAIN_TOOLS
from tests.conformance.backend.questions import InputNeeded
from tests.conformance.backend.state import Context, State

NAME = "mcp-connections-conformance"
RETRY_MILLISECONDS = 100
Eras = Literal["both", "handshake", "stateless"]
TOOLS = {definition.tool.name: definition for definition in (*PLAIN_TOOLS, *ASKING_TOOLS)}


class _Handlers:
    """The requests that depend on what the server has become, and in which era."""

    def __init__(self, *, lists_differ: bool) -> None:
        self.state = State()
        self._lists_differ = lists_differ

    def _has(self, ctx: Context, name: str) -> bool:
        """Whether a tool or prompt is there for this client: servers of both eras may have some for one era only."""
        handshake = ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        return not (self._lists_differ and handshake and name.startswith("test_input_required_result_"))

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        known = [each.tool for each in TOOLS.values() if self._has(ctx, each.tool.name)]
        return ListToolsResult(tools=[*known, *self.state.late_tools])

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        definition = TOOLS.get(params.name) if self._has(ctx, params.name) else None
        if definition is None:
            if any(tool.name == params.name for tool in self.state.late_tools):
                return text(params.name)
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            return await definition.run(ctx, params, self.state)
        except InputNeeded as needed:
            return needed.result
        except TypeError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    async def list_prompts(self, ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        known = [prompt for prompt, _ in prompts.PROMPTS.values() if self._has(ctx, prompt.name)]
        return ListPromptsResult(prompts=[*known, *self.state.late_prompts])

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        if not self._has(ctx, params.name):
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        try:
            return await prompts.get(ctx, params)
        except InputNeeded as needed:
            return needed.result

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=Completion(values=[f"{params.argument.value}ing"], total=1, has_more=False))

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    async def initialized(self, ctx: Context, params: NotificationParams) -> None:
        self.state.joined(ctx.session)


class ConformanceServer(Server[dict[str, Any]]):
    """Says of its lists that they change, to clients of the handshake era too."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changing, experimental_capabilities, extensions)


def make_server(eras: Eras) -> ConformanceServer:
    """The server, with nothing changed yet."""
    handlers = _Handlers(lists_differ=eras == "both")
    server = ConformanceServer(
        NAME,
        version="1.0",
        instructions="Asked by the conformance suite.",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=ListenHandler(handlers.state.bus),
        on_completion=handlers.complete,
    )
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, handlers.set_level)
    server.add_notification_handler("notifications/initialized", NotificationParams, handlers.initialized)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


class OnlyEra:
    """Lets requests of one era through and refuses the other as servers do that do not know it."""

    def __init__(self, app: ASGIApp, era: Eras) -> None:
        self._app = app
        self._era = era

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            version = dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode("latin-1")
            handshake = version in ("", *HANDSHAKE_PROTOCOL_VERSIONS)
            if handshake != (self._era == "handshake"):
                await self._refuse(send, version)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, send: Send, version: str) -> None:
        error: dict[str, object]
        if self._era == "handshake":
            error = {"code": INVALID_REQUEST, "message": f"Bad Request: Unsupported protocol version: {version}"}
        else:
            versions = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}
            error = {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "Unsupported protocol version", "data": versions}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def make_app(eras: Eras = "both") -> ASGIApp:
    """The server as an ASGI application with its endpoint at ``/mcp``."""
    app: ASGIApp = make_server(eras).streamable_http_app(event_store=RecentEvents(), retry_interval=RETRY_MILLISECONDS)
    return app if eras == "both" else OnlyEra(app, eras)


async def serve(eras: Eras) -> None:
    """Serve on a free port of loopback until the process is told to stop."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        # h11, because it takes the blanks around header values away, which servers have to (RFC 9110, section 5.5).
        config = uvicorn.Config(make_app(eras), http="h11", log_level="warning", timeout_graceful_shutdown=1)
        print(f"serving http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eras", choices=("both", "handshake", "stateless"), default="both")
    asyncio.run(serve(parser.parse_args().eras))


if __name__ == "__main__":
    main()
