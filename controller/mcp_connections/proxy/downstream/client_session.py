"""One client's session with the endpoint, and the table of all of them.

(MCP 2025-11-25, basic/transports, Session Management.)

A session knows who the client is, which of its requests are running, which questions of backends it has still to
answer, and how to reach it outside any request (its GET stream).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from msgspec import Raw

from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.downstream.client_capability import refusal
from mcp_connections.proxy.downstream.held_subscriptions import HeldSubscriptions
from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.downstream.replica import Replica
from mcp_connections.proxy.downstream.running_requests import RunningRequests
from mcp_connections.proxy.downstream.unasked_messages import UnaskedMessages
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.upstream.session import Asker, Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope
from mcp_connections.proxy.wire.log_level import reaches

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 1800.0
SWEEP_SECONDS: Final = 30.0
MAX_QUESTIONS: Final = 256
"""Unanswered requests of backends that one client may have before it; further ones are refused."""


class TooManySessions(Exception):
    """The endpoint holds as many sessions as it may."""


class ClientSession(UnaskedMessages):
    """A client after initialize. Made by SessionTable.open."""

    era: Era = "handshake"

    def __init__(
        self,
        session_id: str,
        registry: Registry,
        principal: Principal,
        hello: Hello,
        capabilities: dict[str, Any],
        protocol_version: str,
    ) -> None:
        super().__init__()
        self.id = session_id
        self.principal = principal
        self.hello = hello
        self.capabilities = capabilities
        self.protocol_version = protocol_version
        self.log_level: str | None = None
        self.running = RunningRequests()
        """Requests in progress by the raw JSON of their id."""
        self.last_used = asyncio.get_running_loop().time()
        self._subscriptions: HeldSubscriptions | None = None
        self._registry = registry
        self._questions: dict[str, tuple[Asker, Raw]] = {}
        self._asked = 0

    # reaching the client

    def open_stream(self) -> Outbox:
        stream = super().open_stream()
        for mount in self._registry.mounts:
            mount.client_listens(self)
        return stream

    @property
    def subscriptions(self) -> HeldSubscriptions:
        """What the client is subscribed to. Made on demand: most clients never are, and it refers back to them, so that
        their sessions would wait for the garbage collector."""
        if self._subscriptions is None:
            self._subscriptions = HeldSubscriptions(self._registry, self, self, self._tell_end)
        return self._subscriptions

    def subscription_ended(self, uri: str, cause: str) -> None:
        """Updates of a resource come no more."""
        self.subscriptions.end(uri, cause)

    def _tell_end(self, uri: str, cause: str) -> None:
        """This era has no message for the end of a subscription: what can be had is in the list of resources, and a
        log message says why where messages are to be expected."""
        self.deliver(jsonrpc.notification("notifications/resources/list_changed"))
        mounts = self._registry.mounts_for(self.principal)
        declared = any("logging" in mount.capabilities(self.era) for mount in mounts)
        if declared and (self.log_level is None or reaches("warning", self.log_level)):
            text = f"Updates of {uri} have ended: {cause}. Subscribe again once it is listed."
            params = {"level": "warning", "logger": "mcp-connections", "data": text}
            self.deliver(jsonrpc.notification("notifications/message", jsonrpc.encode(params)))

    # questions of backends

    def ask(self, asker: Asker, method: str, message: Envelope, scope: Scope | None) -> None:
        """Pass a backend's request on, under an id of our own, and remember whose it is."""
        if (error := self._refusal(method, message)) is not None:
            asker.respond(message["id"], "error", error.body())
            return
        self._asked += 1
        question = f"s{self._asked}"
        self._questions[question] = (asker, message["id"])
        message["id"] = Raw(jsonrpc.encode(question))
        (scope or self).deliver(jsonrpc.encode(message))

    def _refusal(self, method: str, message: Envelope) -> jsonrpc.RpcError | None:
        if (undeclared := refusal(method, message, self.capabilities)) is not None:
            return undeclared
        if len(self._questions) >= MAX_QUESTIONS:
            self._questions = {key: asked for key, asked in self._questions.items() if asked[0].waiting}
        if len(self._questions) >= MAX_QUESTIONS:
            return jsonrpc.RpcError(
                jsonrpc.INTERNAL_ERROR, f"the client has {MAX_QUESTIONS} unanswered requests; ask again later"
            )
        return None

    def answered(self, message: Envelope) -> None:
        """The client answered; late and unknown answers are dropped."""
        try:
            question = jsonrpc.decode_str(message.get("id", jsonrpc.NULL))
        except jsonrpc.DecodeError:
            return
        asked = self._questions.pop(question, None)
        if asked is None:
            return
        asker, request_id = asked
        member = "error" if "error" in message else "result"
        asker.respond(request_id, member, bytes(message.get(member, b"{}")))

    def withdraw(self, asker: Asker, request_id: Raw, message: Envelope, scope: Scope | None) -> None:
        """The backend cancels a question."""
        for question, (waiting, asked_as) in self._questions.items():
            if waiting is asker and bytes(asked_as) == bytes(request_id):
                params = jsonrpc.decode_envelope(message["params"])
                params["requestId"] = Raw(jsonrpc.encode(question))
                message["params"] = Raw(jsonrpc.encode(params))
                del self._questions[question]
                (scope or self).deliver(jsonrpc.encode(message))
                return

    # the end

    def close(self) -> None:
        """Cancel what runs, end the stream and the sessions with backends (in the background)."""
        self.close_stream()
        self.running.cancel_all()
        if self._subscriptions is not None:
            self._subscriptions.forget()
        for mount in self._registry.mounts:
            mount.forget(self)
        self._questions.clear()


class SessionTable:
    """All client sessions of one process."""

    def __init__(self, registry: Registry, replica: Replica | None = None) -> None:
        self._registry = registry
        self._replica = replica or Replica()
        self._sessions: dict[str, ClientSession] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        registry.listen("handshake", self._announce)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, principal: Principal, hello: Hello, capabilities: dict[str, Any], protocol_version: str
    ) -> ClientSession:
        """A new session. Raises TooManySessions."""
        if len(self._sessions) >= self._registry.client_limits.sessions:
            raise TooManySessions
        session = ClientSession(
            self._replica.new_id(), self._registry, principal, hello, capabilities, protocol_version
        )
        self._sessions[session.id] = session
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
        return session

    def get(self, session_id: str, principal: Principal) -> ClientSession | None:
        """The session with this id, marked as used now; None where it is of another principal, too."""
        session = self._sessions.get(session_id)
        if session is not None and session.principal.key != principal.key:
            return None
        if session is not None:
            session.principal = principal  # a newer token may carry other scopes
            session.last_used = asyncio.get_running_loop().time()
        return session

    def close(self, session: ClientSession) -> None:
        """End a session."""
        if self._sessions.pop(session.id, None) is not None:
            session.close()

    def close_streams(self) -> None:
        """End all GET streams, so that a server that stops does not wait for them."""
        for session in self._sessions.values():
            session.close_stream()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        for session in tuple(self._sessions.values()):
            if session.last_used < oldest and not session.listening and not session.running:
                log.info("a client session was idle for %g s; closed it", IDLE_SECONDS)
                self.close(session)
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep) if self._sessions else None

    def _announce(self, changes: set[str]) -> None:
        notices = [jsonrpc.notification(f"notifications/{kind}/list_changed") for kind in sorted(changes)]
        for session in self._sessions.values():
            for notice in notices:
                session.deliver(notice)
