"""The leg to a backend of the stateless era: one session for all clients of a mount.

Clients of the handshake era are bridged here: their requests are made complete, and where the backend answers that it
needs input, the client is asked the way it knows, and the request is sent again with what it said.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from mcp_connections.proxy.channels.channel import ChannelError, begun
from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.held_session import HeldSession
from mcp_connections.proxy.upstream.input_requests import Answers, input_required, questions, with_input
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.upstream.stateless import ACKNOWLEDGED, StatelessSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import completed
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Envelope, RpcError

if TYPE_CHECKING:
    from mcp_connections.proxy.registry.mount import Mount

log = logging.getLogger(__name__)

MAX_ROUNDS: Final = 20
"""How often one request may come back for more input."""


class StatelessLeg(HeldSession[StatelessSession]):
    """All clients' way to a mount whose backend has no sessions."""

    held = "connection"

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount)
        self._follows_lists = False

    async def call(self, client: Client, message: Envelope, scope: Scope | None) -> Envelope:
        """Relay a request. Raises ChannelError, or RpcError where the client refused an input."""
        session = await self.session()
        if client.era == "stateless":
            return await session.request(message, scope)
        request = completed(message, client.hello, client.log_level)
        answer = await session.request(request, scope)
        for _ in range(MAX_ROUNDS):
            wanted = input_required(answer)
            if wanted is None:
                return answer
            responses = await self._ask(client, wanted, scope)
            try:
                answer = await session.request(with_input(request, wanted, responses), scope)
            except ChannelError as error:
                raise begun(error) from None
        raise RpcError(
            INTERNAL_ERROR, f"connection {self._mount.label}: the backend asked for input more than {MAX_ROUNDS} times"
        )

    async def _ask(self, client: Client, wanted: Envelope, scope: Scope | None) -> dict[str, Raw]:
        """The client's answers to the backend's questions, by their keys."""
        answers = Answers(self._mount.label)
        for key, method, message in questions(wanted, self._mount.label):
            client.ask(answers.expect(key), method, message, scope)
        return await answers.collect(self._mount.spec.timeouts.max)

    async def _connect(self) -> StatelessSession:
        return await self._mount.open_stateless_session(self)

    async def _resume(self, session: StatelessSession) -> None:
        session.watch(self._subscriptions.uris)
        if session.shares_stream:
            session.listen()  # a process of its own, which may know of changes that the control session's does not
        if self._follows_lists:
            session.listen()
            self._mount.stateless_lists_changed()  # while there was no session, nobody would have said so

    # subscriptions

    def follow_lists(self) -> None:
        """Hear of changes of the backend's lists, which no other session does."""
        self._follows_lists = True
        if self._session is not None:
            self._session.listen()

    async def subscribe(self, client: Client, uri: str, message: Envelope) -> Envelope:
        """Subscribe ``client`` to the backend's ``uri``; an error where the backend does not agree. Raises
        ChannelError."""
        session = await self.session()
        self._subscriptions.add(uri, client)
        session.watch(self._subscriptions.uris)
        await session.watching()
        if uri in self._subscriptions.uris:
            return {"jsonrpc": jsonrpc.VERSION, "result": Raw(b"{}")}
        error = RpcError(INVALID_PARAMS, f"connection {self._mount.label} does not tell of updates of this resource")
        return {"jsonrpc": jsonrpc.VERSION, "error": Raw(error.body())}

    async def unsubscribe(self, client: Client, uri: str, message: Envelope) -> Envelope | None:
        """The opposite."""
        self._subscriptions.remove(uri, client)
        if self._session is not None:
            self._session.watch(self._subscriptions.uris)
        return None

    def sever(self, client: Client) -> None:
        """Forget a client's subscriptions."""
        if self._subscriptions.forget(client) and self._session is not None:
            self._session.watch(self._subscriptions.uris)

    # what only sessions have

    async def set_level(self, level: str) -> None:
        """Log levels go with each request in this era."""

    def listen(self) -> None:
        """Nothing but subscriptions arrives outside requests in this era."""

    def notify(self, message: bytes) -> None:
        """Clients send no notifications in this era."""

    # UpstreamEvents

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        error = RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method}: servers of this protocol version send no requests")
        session.respond(message["id"], "error", error.body())

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        if method == "notifications/resources/updated":
            self._subscriptions.updated(message)
        elif method.endswith("/list_changed"):
            self._mount.stateless_lists_changed()
        elif method == ACKNOWLEDGED:
            self._acknowledged(session, message)
        elif scope is not None:
            scope.deliver(jsonrpc.encode(message))

    def _acknowledged(self, session: UpstreamSession, message: Envelope) -> None:
        if not isinstance(session, StatelessSession) or (agreed := session.acknowledgement(message)) is None:
            return
        for uri in self._subscriptions.uris:
            if uri in agreed.refused:
                cause = f"connection {self._mount.label} does not tell of updates of this resource"
                self._subscriptions.refused(uri, cause)
            elif agreed.again:
                self._subscriptions.resumed(uri)
        session.watch(self._subscriptions.uris)

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        log.info("connection %s: the session was lost: %s", self._mount.label, error)
        self._mount.suspect()
        self._mount.restorer.restore(self)
