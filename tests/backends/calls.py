"""Sessions and calls of the scripted backend: what a handler can do besides returning a result."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.backends.scripted import ScriptedBackend, Seen


DONE = object()
"""What a handler returns that has sent its response itself, or never will."""


class RpcFault(Exception):
    """Answer with a JSON-RPC error. ``error`` may be the raw bytes of the error object instead."""

    def __init__(self, code: int = 0, message: str = "", data: Any = None, *, raw: bytes | None = None) -> None:
        super().__init__(message)
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.error = raw if raw is not None else encoded(error)


class Item(NamedTuple):
    """What goes to the proxy next in answer to a call."""

    body: bytes
    final: bool = False
    """The response itself."""
    last: bool = False
    """The HTTP response ends with it."""
    raw: bool = False
    """Already an event, or a piece of one."""


class Session:
    """One session as the backend knows it."""

    def __init__(self, backend: ScriptedBackend, session_id: str, hello: dict[str, Any]) -> None:
        self.id = session_id
        self.hello = hello
        """The params of initialize."""
        self.alive = True
        self.initialized = False
        self.counter = 0
        self.log_level: str | None = None
        self.subscriptions: set[str] = set()
        self.notifications: list[dict[str, Any]] = []
        self.calls: dict[Any, Call] = {}
        self.outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.listening = 0
        """GET streams open now."""
        self._backend = backend
        self._questions: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification on the GET stream."""
        self.outbox.put_nowait(_message(method, params))

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Ask the client on the GET stream; its whole response."""
        question, answer = self.question()
        self.outbox.put_nowait(_message(method, params, question))
        return await answer

    def question(self) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """The id for a request of the backend, and what will be its response."""
        question = f"q{next(self._numbers)}"
        answer = self._questions[question] = asyncio.get_running_loop().create_future()
        return question, answer

    def answered(self, message: dict[str, Any]) -> None:
        answer = self._questions.pop(str(message["id"]), None)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def notified(self, message: dict[str, Any]) -> None:
        self.notifications.append(message)
        if message["method"] == "notifications/initialized":
            self.initialized = True
        if message["method"] == "notifications/cancelled":
            call = self.calls.get(message["params"]["requestId"])
            if call is not None:
                call.cancelled.set()

    def end(self) -> None:
        """Forget the session; its GET stream ends."""
        self.alive = False
        self.outbox.put_nowait(None)
        self._backend.note_change()


class Call:
    """One request of the proxy while it is being answered."""

    def __init__(self, backend: ScriptedBackend, session: Session, seen: Seen) -> None:
        self.backend = backend
        self.session = session
        self.seen = seen
        self.method: str = seen.message["method"]
        self.params: dict[str, Any] = seen.message.get("params") or {}
        self.outbox: asyncio.Queue[Item] = asyncio.Queue()
        self.cancelled = asyncio.Event()
        """The proxy sent notifications/cancelled."""
        self.disconnected = asyncio.Event()
        """The proxy closed the connection of the request."""

    @property
    def arguments(self) -> Any:
        return self.params.get("arguments") or {}

    @property
    def token(self) -> Any:
        """The progress token the backend was given."""
        return (self.params.get("_meta") or {}).get("progressToken")

    async def run(self, work: Callable[[Call], Awaitable[Any]]) -> None:
        """Do the work and put out the response."""
        try:
            result = await work(self)
        except RpcFault as fault:
            self.put(self._response(b"error", fault.error), final=True, last=True)
            return
        if result is not DONE:
            self.respond(result)

    def respond(self, result: Any, *, last: bool = True) -> None:
        """Send the response now; ``last`` False leaves the stream open. The handler then returns DONE."""
        self.put(self._response(b"result", encoded(result)), final=last, last=last)

    def _response(self, member: bytes, body: bytes) -> bytes:
        return b'{"jsonrpc":"2.0","id":%s,"%s":%s}' % (encoded(self.seen.message["id"]), member, body)

    def put(self, body: bytes, *, final: bool = False, last: bool = False, raw: bool = False) -> None:
        self.outbox.put_nowait(Item(body, final, last, raw))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification ahead of the response."""
        self.put(_message(method, params))

    def progress(self, progress: float, **members: Any) -> None:
        """Report progress with the token of the request."""
        self.notify("notifications/progress", {"progressToken": self.token, "progress": progress, **members})

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Ask the client on the stream of this request; its whole response."""
        question, answer = self.session.question()
        self.put(_message(method, params, question))
        return await answer

    def interrupt(self, event_id: str, retry: int = 10) -> None:
        """End the HTTP response after an event that says how to resume; what follows goes to the resumed stream."""
        self.backend.resumable[event_id] = self
        self.put(b"id: %s\nretry: %d\ndata: \n\n" % (event_id.encode(), retry), last=True, raw=True)

    def drop(self) -> None:
        """Reset the connection the request came on."""
        self.backend.server.drop_connections(self.seen.client)


class Gate:
    """Holds calls until the test lets them go."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.calls: list[Call] = []
        self._arrived = asyncio.Event()

    async def handle(self, call: Call) -> Any:
        """The handler of a gated tool: answers once opened, with how often its session was used."""
        self.calls.append(call)
        self._arrived.set()
        await self.opened.wait()
        return {"content": [{"type": "text", "text": f"passed in {call.session.id}"}]}

    async def arrived(self, count: int = 1) -> Call:
        """The ``count``-th call, once it is here."""
        async with asyncio.timeout(20):
            while len(self.calls) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.calls[count - 1]

    def open(self) -> None:
        self.opened.set()


def encoded(value: Any) -> bytes:
    """JSON text; bytes are taken for JSON text already."""
    return value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()


def event(message: bytes) -> bytes:
    """A message as a server-sent event, with a data line for each line of it."""
    lines = b"".join(b"data: %s\n" % line for line in message.splitlines())
    return b"event: message\n%s\n" % lines


def _message(method: str, params: Any, request_id: str | None = None) -> bytes:
    with contextlib.suppress(TypeError):
        params = encoded(params)
    members = [b'"jsonrpc":"2.0"', b'"method":%s' % encoded(method)]
    if request_id is not None:
        members.append(b'"id":%s' % encoded(request_id))
    if params != b"null":
        members.append(b'"params":%s' % params)
    return b"{%s}" % b",".join(members)
