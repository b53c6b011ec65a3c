"""The tour of ``real_client_tour``, by the client of the Python SDK and by FastMCP's, in both of their modes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

import fastmcp
import mcp_types as types
from mcp import MCPError
from mcp.client import Client as SdkClient
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    Subscription,
    ToolsListChanged,
    listen,
)
from pydantic import FileUrl

KINDS = ("prompts", "resources", "tools")
SAMPLED = types.CreateMessageResult(
    role="assistant",
    content=types.TextContent(type="text", text="not much"),
    model="model-1",
    stop_reason="endTurn",
)
ROOT = types.Root(uri=FileUrl("file:///home/me"), name="home")
_EVENTS: dict[type, str] = {ToolsListChanged: "tools", PromptsListChanged: "prompts", ResourcesListChanged: "resources"}
_NOTIFICATIONS: dict[type, str] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}


class Traveller(ABC):
    """One client, connected; what the steps of the tour need of it."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.changed: set[str] = set()
        self.updated: set[str] = set()
        self._news = asyncio.Event()

    @property
    @abstractmethod
    def session(self) -> Any:
        """The SDK's session below."""

    @property
    def version(self) -> str:
        """The protocol version in use."""
        return str(self.session.protocol_version)

    @property
    def stateless(self) -> bool:
        return self.version == "2026-07-28"

    @abstractmethod
    async def call(self, tool: str, arguments: dict[str, Any] | None = None, progress: list[Any] | None = None) -> str:
        """The text a tool gives."""

    @abstractmethod
    async def read(self, uri: str) -> Any:
        """The first contents of a resource."""

    @abstractmethod
    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """The messages of a prompt."""

    @abstractmethod
    async def complete(self, reference: Any) -> list[str]:
        """The values for argument ``name``, begun with x."""

    @abstractmethod
    async def names(self, what: str) -> list[str]:
        """Names or URIs in a list: tools, prompts, resources or resource_templates."""

    # what it is told

    async def told(self, message: Any) -> None:
        """A message handler."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.add(str(message.params.uri))
        elif (kind := _NOTIFICATIONS.get(type(message))) is not None:
            self.changed.add(kind)
        self._news.set()

    async def follow(self, subscription: Subscription) -> None:
        """Note what a subscription of the stateless era brings."""
        async for event in subscription:
            if isinstance(event, ResourceUpdated):
                self.updated.add(event.uri)
            else:
                self.changed.add(_EVENTS[type(event)])
            self._news.set()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()

    @contextlib.asynccontextmanager
    async def subscribed(self, uri: str) -> AsyncIterator[None]:
        """Told of updates of a resource."""
        if self.stateless:
            async with listen(self.session, resource_subscriptions=[uri]) as subscription:
                follower = asyncio.create_task(self.follow(subscription))
                yield
                follower.cancel()
        else:
            await self.session.subscribe_resource(uri)
            yield
            await self.session.unsubscribe_resource(uri)

    @contextlib.asynccontextmanager
    async def following_lists(self) -> AsyncIterator[None]:
        """Told of changes of the lists: in the handshake era one always is."""
        if not self.stateless:
            yield
            return
        wanted: dict[str, Any] = {f"{kind}_list_changed": True for kind in KINDS}
        async with listen(self.session, **wanted) as subscription:
            follower = asyncio.create_task(self.follow(subscription))
            yield
            follower.cancel()


class SdkTraveller(Traveller):
    """With the Python SDK's client."""

    def __init__(self, url: str, mode: str) -> None:
        super().__init__()
        self.client = SdkClient(
            url,
            mode=mode,
            sampling_callback=self._sample,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots,
            logging_callback=self._logged,
            log_level="debug",
            message_handler=self.told,
        )

    @property
    def session(self) -> Any:
        return self.client.session

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, progress: list[Any] | None = None) -> str:
        async def progressed(done: float, total: float | None, message: str | None) -> None:
            if progress is not None:
                progress.append([done, total, message])

        callback: Any = None if progress is None else progressed
        result = await self.client.call_tool(tool, arguments or {}, progress_callback=callback)
        block = result.content[0]
        assert isinstance(block, types.TextContent)
        return block.text

    async def read(self, uri: str) -> Any:
        return (await self.client.read_resource(uri)).contents[0]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return (await self.client.get_prompt(name, arguments)).messages

    async def complete(self, reference: Any) -> list[str]:
        return (await self.client.complete(reference, {"name": "name", "value": "x"})).completion.values

    async def names(self, what: str) -> list[str]:
        result: Any = await getattr(self.client, f"list_{what}")()
        return _names(getattr(result, what))

    async def _sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        return SAMPLED

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        content: Any = {"name": "Ada"} if isinstance(params, types.ElicitRequestFormParams) else None
        return types.ElicitResult(action="accept", content=content)

    async def _roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[ROOT])

    async def _logged(self, params: Any) -> None:
        self.logs.append(params.data)
        self._news.set()


class FastMcpTraveller(Traveller):
    """With FastMCP's client."""

    def __init__(self, url: str, mode: str) -> None:
        super().__init__()
        self.client: Any = fastmcp.Client(
            url,
            mode=mode,
            sampling_handler=self._sample,
            elicitation_handler=self._elicit,
            roots=[ROOT],
            log_handler=self._logged,
            message_handler=self.told,
        )

    @property
    def session(self) -> Any:
        return self.client.session

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, progress: list[Any] | None = None) -> str:
        async def progressed(done: float, total: float | None, message: str | None) -> None:
            if progress is not None:
                progress.append([done, total, message])

        result = await self.client.call_tool(tool, arguments or {}, progress_handler=progressed)
        return str(result.content[0].text)

    async def read(self, uri: str) -> Any:
        return (await self.client.read_resource(uri))[0]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return (await self.client.get_prompt(name, arguments)).messages

    async def complete(self, reference: Any) -> list[str]:
        values: list[str] = (await self.client.complete(reference, {"name": "name", "value": "x"})).values
        return values

    async def names(self, what: str) -> list[str]:
        return _names(await getattr(self.client, f"list_{what}")())

    async def _sample(self, messages: Any, params: Any, context: Any) -> types.CreateMessageResult:
        return SAMPLED

    async def _elicit(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        return types.ElicitResult(action="accept") if response_type is None else {"name": "Ada"}

    async def _logged(self, message: Any) -> None:
        self.logs.append(message.data)
        self._news.set()


def _names(items: list[Any]) -> list[str]:
    return [
        getattr(each, "uri_template", None) or (str(each.uri) if hasattr(each, "uri") else each.name) for each in items
    ]


async def toured(traveller: SdkTraveller | FastMcpTraveller, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """What each step gave."""
    async with traveller.client:
        report: dict[str, Any] = {"version": traveller.version}
        tools = await traveller.names("tools")
        report["lists"] = {
            "tools": sorted(name for name in tools if name.endswith("_echo")),
            "prompts": sorted(await traveller.names("prompts")),
            "resources": sorted(await traveller.names("resources")),
            "templates": sorted(await traveller.names("resource_templates")),
        }
        if not traveller.stateless:
            await traveller.client.set_logging_level("debug")
        async with traveller.following_lists():
            for prefix in prefixes:
                report[prefix] = await _steps(traveller, prefix)
        return report


async def _steps(traveller: Traveller, prefix: str) -> dict[str, Any]:
    live = f"doc://{prefix}/live"
    call = traveller.call
    steps: dict[str, Any] = {"echo": json.loads(await call(f"{prefix}_echo", {"n": 1, "é": "日本"}))}
    read = await traveller.read(live)
    steps["read"] = [[str(read.uri), read.text]]
    steps["blob"] = (await traveller.read(f"urn:{prefix}:x:1")).blob
    steps["expanded"] = (await traveller.read(f"doc://{prefix}/items/7")).text
    hello, link = await traveller.prompt(f"{prefix}_greet", {"name": "Ada"})
    steps["prompt"] = [hello.content.text, str(link.content.uri)]
    steps["complete"] = [
        await traveller.complete(types.PromptReference(type="ref/prompt", name=f"{prefix}_greet")),
        await traveller.complete(
            types.ResourceTemplateReference(type="ref/resource", uri=f"doc://{prefix}/items/{{id}}")
        ),
    ]
    for tool in ("sample", "form", "roots", "rounds"):
        steps[tool] = json.loads(await call(f"{prefix}_{tool}"))
    steps["login"] = await call(f"{prefix}_login")
    steps["progress"] = []
    await call(f"{prefix}_count", progress=steps["progress"])
    traveller.logs.clear()
    await call(f"{prefix}_talk")
    await traveller.until(lambda: len(traveller.logs) == 2)
    steps["logs"] = list(traveller.logs)
    try:
        await call(f"{prefix}_broken")
    except MCPError as error:
        steps["error"] = [error.error.code, error.error.data]
    async with traveller.subscribed(live):
        await asyncio.sleep(0.3)
        await call(f"{prefix}_touch")
        await traveller.until(lambda: traveller.updated)
    (steps["update"],) = traveller.updated
    traveller.updated.clear()
    traveller.changed.clear()
    await call(f"{prefix}_add")
    await traveller.until(lambda: traveller.changed == set(KINDS))
    steps["changes"] = f"{prefix}_late1" in await traveller.names("tools")
    return steps
