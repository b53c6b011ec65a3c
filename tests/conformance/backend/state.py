"""What a request can change: the lists, and who is told of it in either era."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp_types import Prompt, Tool

Context = ServerRequestContext[dict[str, Any], Any]

MAX_SESSIONS = 1000
"""Sessions told of changes; the oldest are forgotten first, which by then have long ended."""


class State:
    """One server's changeable part."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        """Reaches the streams of ``subscriptions/listen``."""
        self.late_tools: list[Tool] = []
        self.late_prompts: list[Prompt] = []
        self._sessions: list[ServerSession] = []
        self._changes = 0

    def joined(self, session: ServerSession) -> None:
        """A client of the handshake era has initialized."""
        self._sessions.append(session)
        del self._sessions[:-MAX_SESSIONS]

    async def change_tools(self) -> None:
        """Another tool is there, in place of the one that came last."""
        self._changes += 1
        name = f"test_late_tool_{self._changes}"
        self.late_tools[:] = [Tool(name=name, description="Came later", input_schema={"type": "object"})]
        await self.bus.publish(ToolsListChanged())
        await self._tell(lambda session: session.send_tool_list_changed())

    async def change_prompts(self) -> None:
        """Another prompt is there, in place of the one that came last."""
        self._changes += 1
        self.late_prompts[:] = [Prompt(name=f"test_late_prompt_{self._changes}", description="Came later")]
        await self.bus.publish(PromptsListChanged())
        await self._tell(lambda session: session.send_prompt_list_changed())

    async def change_resource(self, uri: str) -> None:
        """A resource has new contents."""
        await self.bus.publish(ResourceUpdated(uri=uri))
        await self._tell(lambda session: session.send_resource_updated(uri))

    async def _tell(self, send: Callable[[ServerSession], Awaitable[None]]) -> None:
        for session in tuple(self._sessions):
            await send(session)
