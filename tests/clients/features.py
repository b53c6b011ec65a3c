"""A backend that has something of everything MCP has, written once for both eras of the protocol.

What it does is here; what differs between the eras is how it asks (a request to the client, or a result that requires
input), whom it tells of changes (sessions, or ``subscriptions/listen``) and what a request has to carry.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Literal

Era = Literal["handshake", "stateless"]
Message = dict[str, Any]
Send = Callable[[Message], None]

META = "io.modelcontextprotocol"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LIVE = "doc://live"
ASKING = "doc://asking"
"""Reading it takes an answer of the client's, as getting the prompt ``asking`` does."""
CACHE = {"ttlMs": 60_000, "cacheScope": "public"}


class Fault(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class InputRequired(Exception):
    """Answer a stateless client with questions."""

    def __init__(self, questions: dict[str, Message], known: dict[str, Any]) -> None:
        super().__init__("input required")
        self.result = {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": base64.b64encode(json.dumps(known).encode()).decode(),
        }


class Conversation:
    """Whom the backend can tell something: a session of the handshake era, or one subscription of the stateless one."""

    def __init__(self, send: Send, *, hello: Message | None = None) -> None:
        self.send = send
        self.hello = hello or {}
        """The params of initialize."""
        self.subscription: Any = None
        """The id of a ``subscriptions/listen``."""
        self.wanted: Message = {}
        """Its filter."""
        self.subscribed: set[str] = set()
        self.level = "debug"
        self.roots_changed = 0
        self.questions: dict[str, asyncio.Future[Message]] = {}
        self.running: dict[Any, Exchange] = {}
        self._numbers = itertools.count(1)

    def tell(self, method: str, params: Message) -> None:
        """Send a notification outside any request."""
        if self.subscription is not None:
            params = {**params, "_meta": {f"{META}/subscriptionId": self.subscription}}
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, send: Send, method: str, params: Message) -> Message:
        """Ask the client; its result. Raises Fault with its error."""
        question = f"q{next(self._numbers)}"
        answer = self.questions[question] = asyncio.get_running_loop().create_future()
        send({"jsonrpc": "2.0", "id": question, "method": method, "params": params})
        message = await answer
        if "error" in message:
            raise Fault(-32000, f"the client refused: {message['error']['message']}", message["error"])
        result: Message = message["result"]
        return result

    def answered(self, message: Message) -> None:
        if (future := self.questions.pop(str(message["id"]), None)) is not None and not future.done():
            future.set_result(message)


class Exchange:
    """One request while it is being answered."""

    def __init__(self, era: Era, message: Message, conversation: Conversation, send: Send, headers: Message) -> None:
        self.era = era
        self.method: str = message["method"]
        self.params: Message = message.get("params") or {}
        self.meta: Message = self.params.get("_meta") or {}
        self.id = message["id"]
        self.conversation = conversation
        self.headers = headers
        self.cancelled = asyncio.Event()
        self._send = send

    def notify(self, method: str, params: Message) -> None:
        """Send a notification ahead of the response."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def log(self, level: str, data: Any) -> None:
        """Send a log message if it is wanted."""
        threshold = self.meta.get(f"{META}/logLevel") if self.era == "stateless" else self.conversation.level
        if threshold is not None and LEVELS.index(level) >= LEVELS.index(threshold):
            self.notify("notifications/message", {"level": level, "logger": "features", "data": data})

    async def ask(self, **questions: tuple[str, Message]) -> dict[str, Message]:
        """Ask the client, all at once; its answers by the same keys."""
        if self.era == "handshake":
            asked = [self.conversation.ask(self._send, method, params) for method, params in questions.values()]
            return dict(zip(questions, await asyncio.gather(*asked), strict=True))
        state = self.params.get("requestState")
        known = json.loads(base64.b64decode(state)) if state is not None else {}
        known |= {key: value for key, value in (self.params.get("inputResponses") or {}).items() if key not in known}
        missing = {
            key: {"method": method, "params": params} for key, (method, params) in questions.items() if key not in known
        }
        if missing:
            self._require(questions[key][0] for key in missing)
            raise InputRequired(missing, known)
        return {key: known[key] for key in questions}

    def _require(self, methods: Iterable[str]) -> None:
        """Refuse to ask what the client did not declare (basic/index, "Per-request protocol fields")."""
        declared = self.meta[f"{META}/clientCapabilities"]
        required: Message = {
            method.partition("/")[0]: {} for method in methods if method.partition("/")[0] not in declared
        }
        if required:
            raise Fault(-32021, "a capability is missing", {"requiredCapabilities": required})


def text(content: Any) -> Message:
    """The result of a tool that answers with text."""
    return {"content": [{"type": "text", "text": content if isinstance(content, str) else json.dumps(content)}]}


SAMPLE: Message = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "What is up?"}}],
    "maxTokens": 7,
    "modelPreferences": {"hints": [{"name": "any"}], "costPriority": 0.25},
    "systemPrompt": "Be brief.",
    "metadata": {"trace": "t1"},
}
FORM: Message = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
URL: Message = {"mode": "url", "message": "Log in", "url": "https://example.com/login?x=1", "elicitationId": "e-1"}


async def _echo(backend: Features, exchange: Exchange) -> Message:
    return text(exchange.params.get("arguments") or {})


async def _sample(backend: Features, exchange: Exchange) -> Message:
    answer = (await exchange.ask(sample=("sampling/createMessage", SAMPLE)))["sample"]
    return text([answer["model"], answer.get("stopReason"), answer["content"]])


async def _form(backend: Features, exchange: Exchange) -> Message:
    answer = (await exchange.ask(form=("elicitation/create", FORM)))["form"]
    return text([answer["action"], answer.get("content")])


async def _login(backend: Features, exchange: Exchange) -> Message:
    url = {key: value for key, value in URL.items() if exchange.era == "handshake" or key != "elicitationId"}
    return text((await exchange.ask(login=("elicitation/create", url)))["login"]["action"])


async def _roots(backend: Features, exchange: Exchange) -> Message:
    return text((await exchange.ask(roots=("roots/list", {})))["roots"]["roots"])


async def _rounds(backend: Features, exchange: Exchange) -> Message:
    """Three rounds, the first of two questions."""
    first = await exchange.ask(form=("elicitation/create", FORM), roots=("roots/list", {}))
    name = first["form"]["content"]["name"]
    second = await exchange.ask(sample=("sampling/createMessage", {**SAMPLE, "systemPrompt": f"You are {name}."}))
    third = await exchange.ask(again=("elicitation/create", {**FORM, "message": second["sample"]["model"]}))
    return text([name, len(first["roots"]["roots"]), third["again"]["action"]])


async def _count(backend: Features, exchange: Exchange) -> Message:
    token = exchange.meta.get("progressToken")
    for number in (1, 2, 3):
        if token is not None:
            exchange.notify(
                "notifications/progress",
                {"progressToken": token, "progress": number, "total": 3, "message": f"step {number}"},
            )
    return text("counted")


async def _form_then_count(backend: Features, exchange: Exchange) -> Message:
    await exchange.ask(form=("elicitation/create", FORM))
    return await _count(backend, exchange)


async def _talk(backend: Features, exchange: Exchange) -> Message:
    exchange.log("debug", {"at": "start"})
    exchange.log("error", "oh no")
    return text("talked")


async def _add(backend: Features, exchange: Exchange) -> Message:
    backend.add()
    for kind in ("tools", "resources", "prompts"):
        backend.tell(kind)
    return text("added")


async def _touch(backend: Features, exchange: Exchange) -> Message:
    backend.updated((exchange.params.get("arguments") or {}).get("uri", LIVE))
    return text("touched")


async def _wait(backend: Features, exchange: Exchange) -> Message:
    exchange.notify("notifications/message", {"level": "emergency", "data": "waiting"})
    await exchange.cancelled.wait()
    return text("cancelled")


async def _broken(backend: Features, exchange: Exchange) -> Message:
    raise Fault(-5, "broken", {"why": [1, None]})


async def _login_first(backend: Features, exchange: Exchange) -> Message:
    """What 2025-11-25 has for a call that cannot go on before a page was visited."""
    if not backend.logged_in:
        backend.logged_in = True
        raise Fault(-32042, "log in first", {"elicitations": [URL]})
    return text("let in")


async def _region(backend: Features, exchange: Exchange) -> Message:
    return text({name: value for name, value in exchange.headers.items() if name.startswith("mcp-")})


Tool = Callable[["Features", Exchange], Awaitable[Message]]
TOOLS: dict[str, Tool] = {
    "echo": _echo,
    "sample": _sample,
    "form": _form,
    "login": _login,
    "roots": _roots,
    "rounds": _rounds,
    "count": _count,
    "form_then_count": _form_then_count,
    "talk": _talk,
    "add": _add,
    "touch": _touch,
    "wait": _wait,
    "broken": _broken,
    "login_first": _login_first,
    "region": _region,
}
SCHEMAS: dict[str, Message] = {
    "region": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "plain": {"type": "string"},
        },
    }
}


class Features:
    """The backend in one era, whatever it is served over."""

    def __init__(self, era: Era, state: Path | None = None) -> None:
        """``state``: a file that several processes of the backend share."""
        self.era: Era = era
        self._state = state
        self._late = 0
        self.logged_in = False
        self.conversations: list[Conversation] = []
        self.seen: list[Exchange] = []
        self.level_calls: list[str] = []

    @property
    def late(self) -> int:
        """How many items were added."""
        if self._state is not None and self._state.exists():
            return len(self._state.read_text())
        return self._late

    def add(self) -> None:
        """One more item in each list."""
        self._late += 1
        if self._state is not None:
            self._state.write_text("x" * (self.late + 1))

    # what happens on its own account

    def tell(self, kind: str) -> None:
        """Tell everybody who wants to know that a list changed."""
        for conversation in self.conversations:
            if self.era == "handshake" or conversation.wanted.get(f"{kind}ListChanged"):
                conversation.tell(f"notifications/{kind}/list_changed", {})

    def updated(self, uri: str) -> None:
        """Tell everybody who wants to know that a resource was updated."""
        for conversation in self.conversations:
            if uri in conversation.subscribed or uri in conversation.wanted.get("resourceSubscriptions", ()):
                conversation.tell("notifications/resources/updated", {"uri": uri})

    # requests

    async def answer(self, exchange: Exchange) -> Message:
        """The whole response."""
        self.seen.append(exchange)
        response: Message = {"jsonrpc": "2.0", "id": exchange.id}
        exchange.conversation.running[exchange.id] = exchange
        try:
            self._require_complete(exchange)
            result = await self._result(exchange)
        except InputRequired as wanted:
            return response | {"result": wanted.result}
        except Fault as fault:
            return response | {"error": fault.error}
        finally:
            exchange.conversation.running.pop(exchange.id, None)
        if self.era == "stateless":
            result = {"resultType": "complete", **result}
        return response | {"result": result}

    def _require_complete(self, exchange: Exchange) -> None:
        complete = f"{META}/protocolVersion" in exchange.meta and f"{META}/clientCapabilities" in exchange.meta
        if self.era == "stateless" and not complete:
            raise Fault(-32602, "the request is not complete: this server speaks 2026-07-28 only")

    async def _result(self, exchange: Exchange) -> Message:
        method, params = exchange.method, exchange.params
        if method == "tools/call":
            if (tool := TOOLS.get(params["name"])) is None:
                raise Fault(-32602, f"unknown tool {params['name']}")
            return await tool(self, exchange)
        if (listed := self._lists().get(method)) is not None:
            return {**listed, **(CACHE if self.era == "stateless" else {})}
        if params.get("uri") == ASKING or params.get("name") == "asking":
            answer = (await exchange.ask(form=("elicitation/create", FORM)))["form"]
            block = {"type": "text", "text": json.dumps(answer["content"])}
            if method == "prompts/get":
                return {"messages": [{"role": "user", "content": block}]}
            return {"contents": [{"uri": ASKING, "text": block["text"]}]} | (CACHE if self.era == "stateless" else {})
        if method == "completion/complete" and params["argument"]["name"] == "asking":
            await exchange.ask(form=("elicitation/create", FORM))
        if method == "resources/read":
            return self._read(params["uri"]) | (CACHE if self.era == "stateless" else {})
        if method == "prompts/get":
            greeting = f"Hello, {(params.get('arguments') or {}).get('name')}"
            block = {"type": "resource_link", "uri": LIVE, "name": "live"}
            messages = [{"role": "user", "content": {"type": "text", "text": greeting}}]
            return {"messages": [*messages, {"role": "assistant", "content": block}]}
        if method == "completion/complete":
            given = params["argument"]["value"]
            known = (params.get("context") or {}).get("arguments", {})
            values = [f"{given}{end}" for end in ("a", "b")] + [f"{key}={value}" for key, value in known.items()]
            return {"completion": {"values": values, "total": 7, "hasMore": True}}
        return self._of_the_era(exchange)

    def _of_the_era(self, exchange: Exchange) -> Message:
        method, params, conversation = exchange.method, exchange.params, exchange.conversation
        capabilities: Message = {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "completions": {},
            "logging": {},
        }
        info = {"name": f"features-{self.era}", "version": "1"}
        if self.era == "stateless":
            if method == "server/discover":
                about = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": info}
                return about | {"instructions": "Be stateless.", **CACHE, "_meta": {f"{META}/serverInfo": info}}
        elif method == "initialize":
            conversation.hello = params
            about = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
            return about | {"instructions": "Shake hands."}
        elif method == "ping":
            return {}
        elif method == "logging/setLevel":
            conversation.level = params["level"]
            self.level_calls.append(params["level"])
            return {}
        elif method == "resources/subscribe":
            conversation.subscribed.add(params["uri"])
            return {}
        elif method == "resources/unsubscribe":
            conversation.subscribed.discard(params["uri"])
            return {}
        raise Fault(-32601, f"unknown method {method}")

    def _lists(self) -> dict[str, Message]:
        late = [f"late{number}" for number in range(1, self.late + 1)]
        plain: Message = {"type": "object", "properties": {}, "additionalProperties": True}
        tools = [{"name": name, "inputSchema": SCHEMAS.get(name, plain)} for name in [*TOOLS, *late]]
        resources = [{"uri": LIVE, "name": "live", "size": 4}, {"uri": "urn:x:1", "name": "blob"}]
        resources += [{"uri": f"doc://{name}", "name": name} for name in late]
        arguments = [{"name": "name", "title": "Whom", "required": True}]
        prompts = [{"name": "greet", "arguments": arguments}, {"name": "asking"}, *({"name": name} for name in late)]
        templates = [{"uriTemplate": "doc://items/{id}", "name": "items"}]
        return {
            "tools/list": {"tools": tools},
            "resources/list": {"resources": resources},
            "resources/templates/list": {"resourceTemplates": templates},
            "prompts/list": {"prompts": prompts},
        }

    def _read(self, uri: str) -> Message:
        if uri == "urn:x:1":
            return {"contents": [{"uri": uri, "blob": "AAEC", "mimeType": "application/x-any"}]}
        if not uri.startswith("doc://"):
            code = -32602 if self.era == "stateless" else -32002
            raise Fault(code, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": f"text of {uri}", "mimeType": "text/plain"}]}

    # notifications

    def notified(self, message: Message, conversation: Conversation) -> None:
        """A notification of the client."""
        if message["method"] == "notifications/cancelled":
            exchange = conversation.running.get(message["params"]["requestId"])
            if exchange is not None:
                exchange.cancelled.set()
        if message["method"] == "notifications/roots/list_changed":
            conversation.roots_changed += 1

    def open(self, conversation: Conversation) -> None:
        """From now on ``conversation`` is told of changes."""
        self.conversations.append(conversation)

    def close(self, conversation: Conversation) -> None:
        """The opposite."""
        if conversation in self.conversations:
            self.conversations.remove(conversation)

    def listen(self, message: Message, send: Send) -> Conversation:
        """Serve a ``subscriptions/listen``: acknowledged, and told of what it names."""
        conversation = Conversation(send)
        conversation.subscription = message["id"]
        conversation.wanted = message["params"].get("notifications") or {}
        conversation.tell("notifications/subscriptions/acknowledged", {"notifications": conversation.wanted})
        self.open(conversation)
        return conversation
