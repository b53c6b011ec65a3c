"""The bridge as an ASGI application: ``/mcp`` for the proxy, ``/healthz`` and ``/readyz`` for probes.

It is ready as soon as it serves, whatever becomes of the program: only so can the proxy be told what ails it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from mcp_connections.mounts.spec import Access
from mcp_connections.proxy.access.entrance import Entrance, Headers, Refusal
from mcp_connections.proxy.bridge.program import MESSAGE_BYTES, Program
from mcp_connections.proxy.bridge.sessions import Session, SessionTable, with_id
from mcp_connections.proxy.bridge.shared_program import SharedProgram
from mcp_connections.proxy.channels.bridge_faults import told
from mcp_connections.proxy.channels.channel import ChannelError, TimedOut, unsent
from mcp_connections.proxy.channels.connecting import STDIO_HANDSHAKE_SECONDS
from mcp_connections.proxy.downstream.listening_stream import require_streams, serve_stream
from mcp_connections.proxy.downstream.request_body import accepts_streams, read_body, require_json, wrong_method
from mcp_connections.proxy.downstream.request_stream import Reachable, RequestStream, send_body
from mcp_connections.proxy.downstream.running_requests import forgive_cancellation
from mcp_connections.proxy.downstream.stateless.answers import code_of
from mcp_connections.proxy.downstream.stateless.endpoint import http_status, is_stateless
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Envelope

log = logging.getLogger(__name__)

RETRY_AFTER: Final = (b"retry-after", b"5")
_UNKNOWN: Final = "Session not found; send initialize again"


class BridgeEndpoint:
    """Serves one program. ``access`` may be replaced at any time."""

    def __init__(self, program: Program, access: Access, *, bind: str) -> None:
        """``bind``: the address that is listened at."""
        self.access = access
        self.sessions = SessionTable(program)
        self._label = program.label
        self._exits = program.exits
        self._shared = SharedProgram(program)
        self._entrance = Entrance(bind)
        self._stateless: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path in ("/mcp", "/mcp/"):
            await self._mcp(scope, receive, send)
        elif path in ("/healthz", "/readyz"):
            await send_body(send, 200, b'{"status":"ok"}')
        else:
            await send_body(send, 404, b'{"error":"not found; the MCP endpoint is /mcp"}')

    def close_streams(self) -> None:
        """End what would keep a server waiting that stops: streams, and subscriptions of stateless clients."""
        self.sessions.close_streams()
        for task in tuple(self._stateless):
            task.cancel()

    async def aclose(self) -> None:
        """End all processes; returns once they are gone."""
        await asyncio.gather(self.sessions.aclose(), self._shared.aclose())

    async def _mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = {name: value.strip(b" \t") for name, value in scope["headers"]}
        method = scope["method"]
        try:
            self._entrance.use(self.access)
            self._entrance.check_name(headers)
            await self._entrance.admit(headers, scope["scheme"])
            if method == "POST":
                await self._post(headers, receive, send)
            elif method == "GET":
                await self._get(headers, receive, send)
            elif method == "DELETE":
                self.sessions.close(self._session(headers))
                await send_body(send, 200, b"")
            else:
                raise wrong_method(method)
        except Refusal as refusal:
            await send_body(send, refusal.status, jsonrpc.failure(b"null", refusal.error), refusal.headers)

    def _session(self, headers: Headers) -> Session:
        session_id = headers.get(b"mcp-session-id", b"").decode("latin-1")
        if not session_id:
            raise Refusal(400, INVALID_REQUEST, "the Mcp-Session-Id header is missing; send initialize first")
        session = self.sessions.get(session_id)
        if session is not None:
            return session
        refusal = Refusal(404, -32001, _UNKNOWN)
        cause = self.sessions.cause_of_end(session_id)
        if cause is not None:
            refusal.error = told(unsent(cause), self._exits)
        raise refusal

    async def _get(self, headers: Headers, receive: Receive, send: Send) -> None:
        require_streams(headers)
        await serve_stream(self._session(headers), receive, send, access=lambda: self.access)

    async def _post(self, headers: Headers, receive: Receive, send: Send) -> None:
        require_json(headers)
        body = await read_body(headers, receive, MESSAGE_BYTES)
        try:
            jsonrpc.require_utf8(body)
            message = jsonrpc.decode_envelope(body)
        except jsonrpc.DecodeError as error:
            raise Refusal(400, PARSE_ERROR, f"the request body is not one JSON-RPC message: {error}") from None
        method, request_id = jsonrpc.method_of(message), message.get("id")
        if method is None or request_id is None:
            await self._one_way(headers, method, message, send)
        elif is_stateless(headers, message):
            await self._stateless_request(headers, method, message, receive, send)
        elif method == "initialize":
            await self._initialize(message, receive, send)
        else:
            session = self._session(headers)
            stream = RequestStream(session, receive, send, streams=accepts_streams(headers))
            await self._answer(session, message, stream, lambda: session.passage.request(message, stream))

    async def _one_way(self, headers: Headers, method: str | None, message: Envelope, send: Send) -> None:
        """A notification or a response."""
        if not is_stateless(headers, message):  # where neither means anything
            session = self._session(headers)
            if method == "notifications/cancelled":
                params = jsonrpc.members(message.get("params"), method)
                session.running.cancel(bytes(params.get("requestId", b"")))
            else:
                try:
                    await session.passage.pass_on(message)
                except ChannelError as error:
                    log.debug("a message was not delivered: %s", error)
        await send_body(send, 202, b"")

    async def _initialize(self, message: Envelope, receive: Receive, send: Send) -> None:
        if self.sessions.is_full:
            text = f"the bridge of connection {self._label} has no room for another session; set session.maxSessions"
            raise Refusal(503, jsonrpc.INTERNAL_ERROR, text, RETRY_AFTER)
        request_id = bytes(message["id"])
        session = self.sessions.new()
        stream = RequestStream(session, receive, send, streams=False)
        try:
            answer = await self.sessions.open(session, lambda: self._begun(session, message, stream))
        except ChannelError as error:
            log.warning("no session: %s", error)
            await stream.finish(jsonrpc.failure(request_id, told(unsent(error), self._exits)))
        except asyncio.CancelledError:
            forgive_cancellation()
            stream.abandon()
        else:
            opened = [(b"mcp-session-id", session.id.encode("latin-1"))]
            await stream.finish(with_id(answer, request_id), headers=None if "error" in answer else opened)

    async def _begun(self, session: Session, message: Envelope, stream: RequestStream[Session]) -> Envelope:
        try:
            async with asyncio.timeout(STDIO_HANDSHAKE_SECONDS):
                return await session.passage.request(message, stream)
        except TimeoutError:
            raise TimedOut(
                f"connection {self._label}: no answer to initialize within {STDIO_HANDSHAKE_SECONDS:g} s"
            ) from None

    async def _answer(
        self,
        session: Session,
        message: Envelope,
        stream: RequestStream[Session],
        work: Callable[[], Awaitable[Envelope]],
    ) -> None:
        request_id = bytes(message["id"])
        task = asyncio.current_task()
        assert task is not None
        session.running.add(request_id, task)
        try:
            body = with_id(await work(), request_id)
        except ChannelError as error:
            body = jsonrpc.failure(request_id, told(error, self._exits))
        except asyncio.CancelledError:
            forgive_cancellation()
            await stream.finish(None)
            return
        finally:
            session.running.discard(request_id, task)
        await stream.finish(body)

    async def _stateless_request(
        self, headers: Headers, method: str, message: Envelope, receive: Receive, send: Send
    ) -> None:
        request_id = bytes(message["id"])
        stream = RequestStream(_Nobody(), receive, send, streams=accepts_streams(headers))
        listens = method == "subscriptions/listen"
        task = asyncio.current_task()
        assert task is not None
        if listens:
            self._stateless.add(task)
        try:
            answer = await (self._shared.listen if listens else self._shared.request)(message, stream)
            body, status = with_id(answer, request_id), http_status(code_of(answer.get("error")))
        except ChannelError as error:
            body, status = jsonrpc.failure(request_id, told(error, self._exits)), 200
        except asyncio.CancelledError:
            forgive_cancellation()
            stream.abandon()
            return
        finally:
            self._stateless.discard(task)
        await stream.finish(body, status)


class _Nobody(Reachable):
    """A client that cannot be reached outside its request."""

    def deliver(self, message: bytes) -> None:
        """There is nowhere to send it."""
