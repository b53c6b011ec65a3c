"""A hand-written MCP server (initialize era, streamable HTTP) that does what a test tells it to, faults included.

It keeps every request it saw, and every session it opened: what the proxy really did is read from here. Nothing in it
is shared with the code under test.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from tests.backends.calls import Call, Gate, RpcFault, Session, encoded, event
from tests.backends.http_server import HttpServer

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LIST_METHODS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ALL_CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}

Handler = Callable[[Call], Awaitable[Any]]
"""Returns a result, as JSON or as raw bytes; raises RpcFault to answer with an error."""


@dataclass(frozen=True)
class Seen:
    """One HTTP request that reached the backend."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]
    query: str = ""
    message: Any = None

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, empty where there is none."""
        return str(self.message.get("method", "")) if isinstance(self.message, dict) else ""

    @property
    def session(self) -> str:
        return self.headers.get("mcp-session-id", "")


@dataclass(frozen=True)
class HttpAnswer:
    """A whole HTTP response in place of what MCP asks for."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Intercept = Callable[[Seen], Awaitable[HttpAnswer | None]]


async def hang(_seen: Seen) -> HttpAnswer | None:
    """An Intercept: nothing is ever answered."""
    await asyncio.Event().wait()
    return None


class ScriptedBackend:
    """One backend. Serve it with ``serving``; its members may be changed at any time."""

    def __init__(self, *, tools: bool = True) -> None:
        self.server = HttpServer(self)
        self.versions: tuple[str, ...] = VERSIONS
        self.capabilities: dict[str, Any] = dict(ALL_CAPABILITIES)
        self.server_info: dict[str, Any] = {"name": "scripted", "version": "1.2"}
        self.instructions: str | None = None
        self.stateless = False
        self.answers_with_sse = False
        self.refuses_get: int | None = None
        self.delete_status = 200
        self.page_size: int | None = None
        self.intercept: Intercept | None = None
        self.items: dict[str, list[bytes]] = {member: [] for member in LIST_METHODS.values()}
        self.handlers: dict[str, Handler] = {
            "ping": _empty,
            "resources/read": _read,
            "resources/subscribe": _subscribe,
            "resources/unsubscribe": _unsubscribe,
            "logging/setLevel": _set_level,
            "completion/complete": _complete,
        }
        self.tools: dict[str, Handler] = {}
        self.prompts: dict[str, Handler] = {}
        self.requests: list[Seen] = []
        self.sessions: dict[str, Session] = {}
        """Every session ever opened, by id."""
        self.resumable: dict[str, Call] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        if tools:
            self.tool("echo", _echo)
            self.tool("bump", _bump)

    # what it offers

    def tool(self, name: str, handler: Handler | None = None, **members: Any) -> None:
        """Offer a tool; without a handler it answers with its own name."""
        self.add_item("tools", {"name": name, "inputSchema": {"type": "object"}, **members})
        self.tools[name] = handler or _named(name)

    def gated_tool(self, name: str) -> Gate:
        """A tool whose calls wait until the test lets them go."""
        gate = Gate()
        self.tool(name, gate.handle)
        return gate

    def resource(self, uri: str, **members: Any) -> None:
        self.add_item("resources", {"uri": uri, "name": uri, **members})

    def template(self, uri_template: str, **members: Any) -> None:
        self.add_item("resourceTemplates", {"uriTemplate": uri_template, "name": uri_template, **members})

    def prompt(self, name: str, handler: Handler, **members: Any) -> None:
        self.add_item("prompts", {"name": name, **members})
        self.prompts[name] = handler

    def add_item(self, member: str, item: Any) -> None:
        """List an item, given as JSON or as the very bytes to send."""
        self.items[member].append(encoded(item))

    # what it saw

    @property
    def live(self) -> list[Session]:
        """Sessions that are open now."""
        return [session for session in self.sessions.values() if session.alive]

    @property
    def client_sessions(self) -> list[Session]:
        """Open sessions but for the proxy's own one, which is the one that lists."""
        listing = {seen.session for seen in self.seen("tools/list")}
        return [session for session in self.live if session.id not in listing]

    def seen(self, rpc: str) -> list[Seen]:
        """Requests of one JSON-RPC method."""
        return [seen for seen in self.requests if seen.rpc == rpc]

    def calls_of(self, tool: str) -> list[Seen]:
        """Calls of one tool."""
        return [seen for seen in self.seen("tools/call") if seen.message["params"].get("name") == tool]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that a request to this backend, or the end of one, brings about."""
        async with asyncio.timeout(20):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def note_change(self) -> None:
        self._changed.set()

    # what happens to it

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The backend on a free port; the URL of its endpoint."""
        await self.server.start()
        try:
            yield self.url
        finally:
            await self.stop()

    @property
    def url(self) -> str:
        return f"{self.server.origin}/mcp"

    async def stop(self) -> None:
        """As if the process were killed: sockets reset, port closed, calls ended. Sessions stay known."""
        for task in tuple(self._tasks):
            task.cancel()
        await self.server.stop()

    async def start(self) -> None:
        """Serve again, on the same port."""
        await self.server.start()

    def lose_sessions(self) -> None:
        """As if the process were restarted: every session id is unknown from now on."""
        for session in self.sessions.values():
            session.end()

    def notify_all(self, method: str, params: Any = None) -> None:
        """Send a notification on the GET stream of every session that has one."""
        for session in self.live:
            session.notify(method, params)

    # ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = await _body(receive)
        message = None
        with contextlib.suppress(ValueError):
            message = json.loads(body) if body else None
        query = scope["query_string"].decode()
        seen = Seen(scope["method"], scope["path"], headers, body, tuple(scope["client"]), query, message)
        self.requests.append(seen)
        self.note_change()
        answer = None if self.intercept is None else await self.intercept(seen)
        if answer is None:
            answer = await self._serve(seen, receive, send)
        if answer is not None:
            await _respond(send, answer)
        self.note_change()

    async def _serve(self, seen: Seen, receive: Receive, send: Send) -> HttpAnswer | None:
        if seen.method == "POST" and seen.rpc == "initialize":
            return self._initialize(seen)
        session = self._session(seen)
        if session is None:
            return HttpAnswer(404 if seen.session else 400, b'{"error":"no such session"}')
        if seen.method == "POST":
            return await self._post(seen, session, receive, send)
        if seen.method == "GET":
            return await self._get(seen, session, receive, send)
        if seen.method == "DELETE":
            if self.delete_status < 300:
                session.end()
            return HttpAnswer(self.delete_status)
        return HttpAnswer(405)

    def _session(self, seen: Seen) -> Session | None:
        session = self.sessions.get("" if self.stateless else seen.session)
        return session if session is not None and session.alive else None

    def _initialize(self, seen: Seen) -> HttpAnswer:
        params = seen.message["params"]
        session = Session(self, "" if self.stateless else f"session-{next(self._numbers)}", params)
        self.sessions[session.id] = session
        offered = params["protocolVersion"]
        result = {
            "protocolVersion": offered if offered in self.versions else self.versions[0],
            "capabilities": self.capabilities,
            "serverInfo": self.server_info,
        }
        if self.instructions is not None:
            result["instructions"] = self.instructions
        headers = {"content-type": "application/json"}
        if not self.stateless:
            headers["mcp-session-id"] = session.id
        body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (encoded(seen.message["id"]), encoded(result))
        return HttpAnswer(200, body, headers)

    async def _post(self, seen: Seen, session: Session, receive: Receive, send: Send) -> HttpAnswer | None:
        if "method" not in seen.message:
            session.answered(seen.message)
            return HttpAnswer(202)
        if "id" not in seen.message:
            session.notified(seen.message)
            return HttpAnswer(202)
        call = Call(self, session, seen)
        session.calls[seen.message["id"]] = call
        task = asyncio.create_task(call.run(self._answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._transmit(call, receive, send)
        return None

    async def _answer(self, call: Call) -> Any:
        method, params = call.method, call.params
        if (member := LIST_METHODS.get(method)) is not None and method not in self.handlers:
            return self._page(member, params.get("cursor"))
        if method == "tools/call" and params["name"] in self.tools:
            return await self.tools[params["name"]](call)
        if method == "prompts/get" and params["name"] in self.prompts:
            return await self.prompts[params["name"]](call)
        if method in self.handlers:
            return await self.handlers[method](call)
        raise RpcFault(-32601, f"scripted backend: {method} is unknown")

    def _page(self, member: str, cursor: str | None) -> bytes:
        items = self.items[member]
        size = self.page_size or max(1, len(items))
        start = int(cursor or 0)
        more = b',"nextCursor":"%d"' % (start + size) if start + size < len(items) else b""
        return b'{"%s":[%s]%s}' % (member.encode(), b",".join(items[start : start + size]), more)

    async def _get(self, seen: Seen, session: Session, receive: Receive, send: Send) -> HttpAnswer | None:
        if (call := self.resumable.pop(seen.headers.get("last-event-id", ""), None)) is not None:
            await self._transmit(call, receive, send)
            return None
        if self.refuses_get is not None:
            return HttpAnswer(self.refuses_get)
        await _start_stream(send)
        session.listening += 1
        self.note_change()
        gone = asyncio.create_task(_disconnected(receive))
        try:
            while (message := await _first(session.outbox.get(), gone)) is not None:
                await send({"type": "http.response.body", "body": event(message), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            session.listening -= 1
        return None

    async def _transmit(self, call: Call, receive: Receive, send: Send) -> None:
        """Send what the call puts out: one JSON body, or an event stream once anything else comes first."""
        gone = asyncio.create_task(_disconnected(receive))
        started = False
        try:
            while (item := await _first(call.outbox.get(), gone)) is not None:
                if item.final and not started and not self.answers_with_sse:
                    await _respond(send, HttpAnswer(200, item.body, {"content-type": "application/json"}))
                    return
                if not started:
                    await _start_stream(send)
                    started = True
                body = item.body if item.raw else event(item.body)
                await send({"type": "http.response.body", "body": body, "more_body": not item.last})
                if item.last:
                    return
            call.disconnected.set()
        finally:
            gone.cancel()
            self.note_change()


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        event_ = await receive()
        chunks.append(event_.get("body", b""))
        if not event_.get("more_body", False):
            return b"".join(chunks)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first(work: Any, gone: asyncio.Task[None]) -> Any:
    """The result of ``work``, or None once the peer has gone."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()


async def _start_stream(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})


async def _respond(send: Send, answer: HttpAnswer) -> None:
    headers = {"content-length": str(len(answer.body))} | answer.headers
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": lines})
    await send({"type": "http.response.body", "body": answer.body})


def text(content: str) -> dict[str, Any]:
    """The result of a tool that answers with text."""
    return {"content": [{"type": "text", "text": content}]}


async def _empty(call: Call) -> Any:
    return {}


async def _echo(call: Call) -> Any:
    return text(json.dumps(call.params.get("arguments", {})))


async def _bump(call: Call) -> Any:
    call.session.counter += 1
    return text(str(call.session.counter))


def _named(name: str) -> Handler:
    async def handler(call: Call) -> Any:
        return text(name)

    return handler


async def _read(call: Call) -> Any:
    return {"contents": [{"uri": call.params["uri"], "text": f"contents of {call.params['uri']}"}]}


async def _subscribe(call: Call) -> Any:
    call.session.subscriptions.add(call.params["uri"])
    return {}


async def _unsubscribe(call: Call) -> Any:
    call.session.subscriptions.discard(call.params["uri"])
    return {}


async def _set_level(call: Call) -> Any:
    call.session.log_level = call.params["level"]
    return {}


async def _complete(call: Call) -> Any:
    return {"completion": {"values": [json.dumps(call.params["ref"])]}}
