"""The public endpoint as an ASGI application: ``/mcp`` for clients, ``/healthz`` and ``/readyz`` for probes.

Streamable HTTP, server side (MCP 2025-11-25, basic/transports). Plain ASGI, because this is the hot path: a routing
framework would cost as much as the relay does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope, Send

from mcp_connections.proxy.access.client_access import METADATA_PATH, Principal
from mcp_connections.proxy.access.entrance import Entrance, Headers, Refusal
from mcp_connections.proxy.downstream.client_session import ClientSession, SessionTable, TooManySessions
from mcp_connections.proxy.downstream.leaving import RETRY_AFTER, STOPPING, Leaving
from mcp_connections.proxy.downstream.listening_stream import require_streams, serve_stream
from mcp_connections.proxy.downstream.relay import Relay, negotiate
from mcp_connections.proxy.downstream.replica import HOP_HEADER, Replica
from mcp_connections.proxy.downstream.request_body import accepts_streams, read_body, require_json, wrong_method
from mcp_connections.proxy.downstream.request_stream import RequestStream, send_body
from mcp_connections.proxy.downstream.running_requests import forgive_cancellation
from mcp_connections.proxy.downstream.stateless.endpoint import StatelessEndpoint, is_stateless
from mcp_connections.proxy.downstream.stateless.relay import StatelessRelay
from mcp_connections.proxy.registry.client import PROXY_HELLO
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import STATELESS_VERSION, SUPPORTED_VERSIONS, UNSUPPORTED_VERSION
from mcp_connections.proxy.wire.hello import hello_of
from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Envelope, RpcError
from mcp_connections.proxy.wire.trace_context import note_headers

log = logging.getLogger(__name__)

MAX_BATCH: Final = 100
_ID_STARTS: Final = tuple(b"%c" % mark for mark in b'"-0123456789')
"""How the JSON of a request's id begins (2025-11-25, basic/index, Requests: never null)."""


class Visit(NamedTuple):
    """One HTTP request that was let in."""

    fields: list[tuple[bytes, bytes]]
    headers: Headers
    principal: Principal


class Endpoint:
    """The ASGI application."""

    def __init__(
        self, registry: Registry, relay: Relay, sessions: SessionTable, *, bind: str, replica: Replica | None = None
    ) -> None:
        """``bind``: the address that is listened at."""
        self._replica = replica or Replica()
        self._registry = registry
        self._relay = relay
        self._sessions = sessions
        self._entrance = Entrance(bind)
        self._leaving = Leaving()
        self._stateless = StatelessEndpoint(registry, StatelessRelay(registry, relay), self._leaving)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path in ("/mcp", "/mcp/"):
            await self._mcp(scope, receive, send)
        elif path == "/healthz":
            await send_body(send, 200, b'{"status":"ok"}')
        elif path == "/readyz":
            ready = self._registry.ready and not self._leaving.has_begun
            await send_body(send, 200 if ready else 503, b'{"ready":%s}' % (b"true" if ready else b"false"))
        elif path in (METADATA_PATH, f"{METADATA_PATH}/mcp"):
            await self._metadata(scope, send)
        else:
            await send_body(send, 404, b'{"error":"not found; the MCP endpoint is /mcp"}')

    async def _mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A field's value does not include the blanks around it (RFC 9110, section 5.5), but httptools leaves them.
        fields = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        headers: Headers = dict(fields)
        note_headers(headers)
        method = scope["method"]
        try:
            self._entrance.use(self._registry.access)
            self._entrance.check_name(headers)
            visit = Visit(fields, headers, await self._entrance.admit(headers, scope["scheme"]))
            if (owner := self._owner_elsewhere(headers)) is not None:
                await self._pass_on(owner, method, visit, receive, send)
            elif method == "POST":
                await self._post(visit, receive, send)
            elif method == "GET":
                await self._get(visit, receive, send)
            elif method == "DELETE":
                self._sessions.close(self._session(visit))
                await send_body(send, 200, b"")
            else:
                raise wrong_method(method)
        except Refusal as refusal:
            await send_body(send, refusal.status, jsonrpc.failure(b"null", refusal.error), refusal.headers)
        except RpcError as error:  # of a notification, which has no id to answer to
            await send_body(send, 400, jsonrpc.failure(b"null", error))

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        return await read_body(headers, receive, self._registry.client_limits.request_bytes)

    def _owner_elsewhere(self, headers: Headers) -> str | None:
        """The replica that has the session of a request, if that is another one."""
        session_id = headers.get(b"mcp-session-id", b"").decode("latin-1")
        if not session_id or session_id in self._sessions or HOP_HEADER in headers:
            return None
        return self._replica.owner_of(session_id)

    async def _pass_on(self, owner: str, method: str, visit: Visit, receive: Receive, send: Send) -> None:
        body = await self._body(visit.headers, receive)
        if not await self._replica.pass_on(owner, method, visit.fields, body, receive, send):
            raise Refusal(404, -32001, "Session not found: its replica is gone; send initialize again")

    async def _metadata(self, scope: Scope, send: Send) -> None:
        """Where clients get tokens for this endpoint: public, as whoever asks has none yet."""
        self._entrance.use(self._registry.access)
        document = self._entrance.metadata(dict(scope["headers"]), scope["scheme"])
        if document is None:
            await send_body(send, 404, b'{"error":"this endpoint has no authorization server"}')
        else:
            await send_body(send, 200, document)

    # the end

    async def leave(self, seconds: float) -> None:
        """Have clients go elsewhere, and return once no request is in progress or ``seconds`` have passed.

        No session is opened any more (503). Those that there are go on until all have paused, or half of the time is
        over. From then on a session with nothing in progress is unknown (404, which tells a client to initialize again:
        2025-11-25, basic/transports, Session Management), and one with a request in progress stays whole: its stream,
        its answers to questions.
        """
        await self._leaving.leave(seconds)

    def close_streams(self) -> None:
        """End everything that would otherwise keep a server that stops waiting."""
        self._sessions.close_streams()
        self._stateless.close_streams()

    # POST

    async def _post(self, visit: Visit, receive: Receive, send: Send) -> None:
        headers = visit.headers
        require_json(headers)
        body = await self._body(headers, receive)
        try:
            jsonrpc.require_utf8(body)
            message = jsonrpc.decode_envelope(body)
        except jsonrpc.DecodeError as error:
            if body.lstrip()[:1] == b"[":
                await self._batch(visit, body, receive, send)
                return
            raise Refusal(400, PARSE_ERROR, f"the request body is not a JSON-RPC message: {error}") from None
        if is_stateless(headers, message):
            streams = accepts_streams(headers)
            await self._stateless.post(visit.fields, visit.principal, message, receive, send, streams=streams)
        else:
            await self._message(visit, message, receive, send)

    async def _message(self, visit: Visit, message: Envelope, receive: Receive, send: Send) -> None:
        method = jsonrpc.method_of(message)
        request_id = message.get("id")
        if method is None:
            if not jsonrpc.is_response(message):
                raise Refusal(400, INVALID_REQUEST, "the message has neither a method nor a result or error")
            self._session(visit).answered(message)
            await send_body(send, 202, b"")
        elif request_id is None:
            self._notified(self._session(visit), method, message)
            await send_body(send, 202, b"")
        elif not bytes(request_id).startswith(_ID_STARTS):
            raise Refusal(400, INVALID_REQUEST, "the id of a request must be a string or a number")
        elif method == "initialize":
            await self._initialize(visit.principal, bytes(request_id), message, send)
        else:
            await self._request(visit, method, bytes(request_id), message, receive, send)

    async def _request(
        self, visit: Visit, method: str, request_id: bytes, message: Envelope, receive: Receive, send: Send
    ) -> None:
        client = self._staying_session(visit)
        stream: RequestStream[ClientSession] = RequestStream(
            client, receive, send, streams=accepts_streams(visit.headers), fields=visit.fields
        )
        task = asyncio.current_task()
        assert task is not None
        with self._leaving.request():
            client.running.add(request_id, task)
            try:
                response = await self._relay.answer(client, method, request_id, message, stream)
            except asyncio.CancelledError:
                forgive_cancellation()
                await stream.finish(None)
                return
            finally:
                client.running.discard(request_id, task)
            await stream.finish(response)

    def _session(self, visit: Visit) -> ClientSession:
        headers = visit.headers
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        if version and version not in SUPPORTED_VERSIONS:
            refusal = f"unsupported protocol version {version}; supported are {', '.join(SUPPORTED_VERSIONS)}"
            raise Refusal(400, UNSUPPORTED_VERSION, refusal)
        if version == STATELESS_VERSION:
            refusal = f"GET and DELETE do not exist in protocol version {version}; send every message with POST"
            raise Refusal(405, INVALID_REQUEST, refusal, (b"allow", b"POST"))
        session_id = headers.get(b"mcp-session-id")
        if session_id is None:
            raise Refusal(400, INVALID_REQUEST, "the Mcp-Session-Id header is missing; send initialize first")
        session = self._sessions.get(session_id.decode("latin-1"), visit.principal)
        if session is None:
            raise Refusal(404, -32001, "Session not found; send initialize again")
        return session

    def _staying_session(self, visit: Visit) -> ClientSession:
        """The session of something that begins."""
        session = self._session(visit)
        if self._leaving.refuses and not session.running:
            raise Refusal(404, -32001, "Session not found: this endpoint is being stopped; send initialize again")
        return session

    async def _initialize(self, principal: Principal, request_id: bytes, message: Envelope, send: Send) -> None:
        try:
            params = jsonrpc.members(message.get("params"), "initialize")
            version = negotiate(jsonrpc.string_member(params, "protocolVersion", "initialize"))
            capabilities = jsonrpc.members(params.get("capabilities"), "initialize: params.capabilities")
            declared: dict[str, Any] = {name: jsonrpc.decode_any(raw) for name, raw in capabilities.items()}
            hello = hello_of(
                bytes(params.get("clientInfo", PROXY_HELLO.client_info)), bytes(params.get("capabilities", b"{}"))
            )
        except jsonrpc.DecodeError as error:
            malformed = RpcError(jsonrpc.INVALID_PARAMS, f"initialize: params.capabilities: {error}")
            await send_body(send, 400, jsonrpc.failure(request_id, malformed))
            return
        except RpcError as error:
            await send_body(send, 400, jsonrpc.failure(request_id, error))
            return
        if self._leaving.has_begun:
            raise Refusal(503, jsonrpc.INTERNAL_ERROR, STOPPING, RETRY_AFTER)
        result = await self._relay.introduce(version, principal)
        try:
            session = self._sessions.open(principal, hello, declared, version)
        except TooManySessions:
            raise Refusal(
                503,
                jsonrpc.INTERNAL_ERROR,
                "the endpoint has no room for another session; try again later",
                RETRY_AFTER,
            ) from None
        await send_body(
            send, 200, jsonrpc.result(request_id, result), [(b"mcp-session-id", session.id.encode("latin-1"))]
        )

    def _notified(self, client: ClientSession, method: str, message: Envelope) -> None:
        if method == "notifications/cancelled":
            params = jsonrpc.members(message.get("params"), method)
            client.running.cancel(bytes(params.get("requestId", b"")))
        elif method == "notifications/roots/list_changed":
            for mount in self._registry.mounts:
                mount.notify(client, jsonrpc.encode(message))

    async def _batch(self, visit: Visit, body: bytes, receive: Receive, send: Send) -> None:
        """A JSON array of messages: only 2025-03-26 has them, and only requests get answers, in one array."""
        if is_stateless(visit.headers, {}):
            raise Refusal(400, INVALID_REQUEST, "batches do not exist in this protocol version; send one message")
        client = self._staying_session(visit)
        if client.protocol_version != "2025-03-26":
            raise Refusal(
                400,
                INVALID_REQUEST,
                f"batches do not exist in protocol version {client.protocol_version}; send one message",
            )
        try:
            jsonrpc.require_utf8(body)
            messages = [jsonrpc.decode_envelope(item) for item in jsonrpc.decode_items(body)]
        except jsonrpc.DecodeError as error:
            raise Refusal(400, PARSE_ERROR, f"the batch is not a list of JSON-RPC messages: {error}") from None
        if not 0 < len(messages) <= MAX_BATCH:
            raise Refusal(400, INVALID_REQUEST, f"a batch must hold 1 to {MAX_BATCH} messages, not {len(messages)}")
        requests: list[tuple[str, Envelope]] = []
        for message in messages:
            method = jsonrpc.method_of(message)
            if method is None:
                client.answered(message)
            elif "id" in message:
                requests.append((method, message))
            else:
                self._notified(client, method, message)
        if not requests:
            await send_body(send, 202, b"")
            return
        stream: RequestStream[ClientSession] = RequestStream(
            client, receive, send, streams=accepts_streams(visit.headers), fields=visit.fields
        )
        with self._leaving.request():
            answers = await self._answers(client, requests, stream)
            await stream.finish(b"[%s]" % b",".join(answers) if answers else None)

    async def _answers(
        self, client: ClientSession, requests: list[tuple[str, Envelope]], stream: RequestStream[ClientSession]
    ) -> list[bytes]:
        """The responses to the requests of a batch, less those that are cancelled."""
        running = [
            (request_id, asyncio.create_task(self._relay.answer(client, method, request_id, message, stream)))
            for method, message in requests
            for request_id in [bytes(message["id"])]
        ]
        for request_id, task in running:
            client.running.add(request_id, task)
        try:
            await asyncio.wait([task for _, task in running])
        except asyncio.CancelledError:
            forgive_cancellation()
            for _, task in running:
                task.cancel()
            return []
        finally:
            for request_id, task in running:
                client.running.discard(request_id, task)
        return [task.result() for _, task in running if not task.cancelled()]

    # GET

    async def _get(self, visit: Visit, receive: Receive, send: Send) -> None:
        require_streams(visit.headers)
        client = self._staying_session(visit)
        await serve_stream(client, receive, send, access=lambda: self._registry.access)
