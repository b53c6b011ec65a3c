"""The upstream half of one client's conversation with one backend.

The upstream session is opened on first use and opened again after the backend lost it. A shared leg
(``session.mode: Shared``) serves all clients of a mount; what its backend says outside any request then concerns no
client in particular, and only subscriptions say whom.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Raw

from mcp_connections.proxy.channels.channel import ChannelError, SessionLost
from mcp_connections.proxy.registry.client import PROXY_HELLO, Client
from mcp_connections.proxy.registry.held_session import HeldSession
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.upstream.shared_stream import client_of
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import stripped
from mcp_connections.proxy.wire.jsonrpc import Envelope

if TYPE_CHECKING:
    from mcp_connections.proxy.registry.mount import Mount

log = logging.getLogger(__name__)


class Leg(HeldSession[UpstreamSession]):
    """The session of ``client`` with ``mount``; ``client`` None makes it the shared one."""

    held = "session"

    def __init__(self, mount: Mount, client: Client | None) -> None:
        super().__init__(mount)
        self._client = client
        self._level: str | None = None
        """The log level that the open session was given."""

    async def call(self, client: Client, message: Envelope, scope: Scope | None) -> Envelope:
        """Relay a request. A backend that lost the session gets the request once more in a new one: HTTP 404
        says that it was not executed (basic/transports, Session Management). Raises ChannelError."""
        if client.era == "stateless":
            message = stripped(message)
        session = await self.session()
        try:
            return await session.request(message, scope)
        except SessionLost:
            self._forget(session)
            session = await self.session()
            return await session.request(message, scope)

    async def _connect(self) -> UpstreamSession:
        hello = PROXY_HELLO if self._client is None else self._client.hello
        session = await self._mount.open_session(hello, self)
        self._level = None
        return session

    async def _resume(self, session: UpstreamSession) -> None:
        if self._subscriptions.uris or (self._client is not None and self._client.listening):
            session.listen()
        if self._client is not None and self._client.log_level is not None:
            await self._set_level(session, self._client.log_level)
        for uri in self._subscriptions.uris:
            await self._subscribe(session, uri)

    async def _set_level(self, session: UpstreamSession, level: str) -> None:
        if "logging" in session.capabilities:
            self._level = level
            await self._replay(session, "logging/setLevel", b'{"level":%s}' % jsonrpc.encode(level))

    async def _subscribe(self, session: UpstreamSession, uri: str) -> None:
        refusal = await self._replay(session, "resources/subscribe", b'{"uri":%s}' % jsonrpc.encode(uri))
        if refusal is None:
            self._subscriptions.resumed(uri)
        else:
            label = self._mount.label
            self._subscriptions.refused(uri, f"connection {label} refused the subscription in a new session: {refusal}")

    async def _replay(self, session: UpstreamSession, method: str, params: bytes) -> str | None:
        """Say in a new session what was said in the one before; the backend's error if it answers with one."""
        request = {"jsonrpc": jsonrpc.VERSION, "method": Raw(jsonrpc.encode(method)), "params": Raw(params)}
        answer = await session.request(request)
        if "error" not in answer:
            return None
        refusal = session.quote(bytes(answer["error"]))
        log.warning("connection %s: %s failed in a new session: %s", self._mount.label, method, refusal)
        return refusal

    def listen(self) -> None:
        """The client can now receive messages outside requests."""
        if self._session is not None:
            self._session.listen()

    def notify(self, message: bytes) -> None:
        """Pass a notification on, if the session is open."""
        if self._session is not None:
            self._session.notify(message)

    async def subscribe(self, client: Client, uri: str, message: Envelope) -> Envelope:
        """Subscribe a client to the backend's ``uri``; ``message`` is its request for that. Raises ChannelError."""
        answer = await self.call(client, message, None)
        if "error" not in answer:
            self._subscriptions.add(uri, client)
            if self._session is not None:
                self._session.listen()
        return answer

    async def unsubscribe(self, client: Client, uri: str, message: Envelope) -> Envelope | None:
        """The opposite; None while other clients of a shared session still want the updates. Raises ChannelError."""
        return await self.call(client, message, None) if self._subscriptions.remove(uri, client) else None

    async def set_level(self, level: str) -> None:
        """Pass the client's log level on, if the session is open and its backend logs. Raises ChannelError."""
        if self._session is not None and self._session.fault is None and level != self._level:
            await self._set_level(self._session, level)

    def sever(self, client: Client) -> None:
        """Forget a client's subscriptions in a shared leg."""
        for uri in self._subscriptions.forget(client):
            if self._session is not None:
                # Sent like a notification, since nobody waits for the answer. Requests are numbered from 1.
                params = b'{"uri":%s}' % jsonrpc.encode(uri)
                self._session.notify(jsonrpc.request(0, "resources/unsubscribe", params))

    # UpstreamEvents

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        client = self._client_of(scope)
        if client is None:
            error = jsonrpc.RpcError(
                jsonrpc.METHOD_NOT_FOUND,
                f"{method}: this session is shared by several clients and the request belongs to none of them;"
                " send it while answering a client's request, or use session mode Isolated",
            )
            session.respond(message["id"], "error", error.body())
        else:
            if scope is None and client.era == "handshake" and not client.listening:
                # It has to be asked on some stream, and all that it has are those of its requests.
                scope = session.latest_scope
            client.ask(session, method, message, scope)

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        if method.endswith("/list_changed"):
            self._mount.list_changed()
        elif method == "notifications/resources/updated":
            self._subscriptions.updated(message)
        elif method == "notifications/cancelled":
            self._cancelled(session, message, scope)
        elif scope is not None:
            scope.deliver(jsonrpc.encode(message))
        elif self._client is not None:
            self._client.deliver(jsonrpc.encode(message))

    def _client_of(self, scope: Scope | None) -> Client | None:
        client: Client | None = self._client if self._client is not None else client_of(scope)
        return client

    def _cancelled(self, session: UpstreamSession, message: Envelope, scope: Scope | None) -> None:
        client = self._client_of(scope)
        try:
            request_id = jsonrpc.decode_envelope(message.get("params", jsonrpc.NULL))["requestId"]
        except (jsonrpc.DecodeError, KeyError):
            return
        if client is not None:
            client.withdraw(session, request_id, message, scope)

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        log.info("connection %s: a client's session was lost: %s", self._mount.label, error)
        self._forget(session)
        self._mount.suspect()
        self._mount.restorer.restore(self)
