"""The upstream half of one client's conversation with one backend.

The upstream session is opened on first use, at most once at a time, and opened again after the backend lost it. A
shared leg (``session.mode: Shared``) serves all clients of a mount; what its backend says outside any request
then concerns no client in particular, and only subscriptions say whom.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from mcp_connections.mounts.uris import public_uri
from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.channels.channel import ChannelError, SessionLost, Unreachable, unsent
from mcp_connections.proxy.upstream.session import Asker, Scope, UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import stripped
from mcp_connections.proxy.wire.eras import META_SUBSCRIPTION, Era
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope

if TYPE_CHECKING:
    from mcp_connections.proxy.registry.mount import Mount

log = logging.getLogger(__name__)

PROXY_HELLO = Hello(client_info=b'{"name":"mcp-connections","version":"1"}', capabilities=b"{}")
"""For sessions that no client stands behind: discovery, and shared ones."""


class Client(Protocol):
    """What a leg needs of the client it works for."""

    hello: Hello
    log_level: str | None
    era: Era
    principal: Principal

    @property
    def listening(self) -> bool:
        """Whether messages outside requests can reach the client now."""

    def deliver(self, message: bytes) -> None:
        """Send a message outside any request."""

    def ask(self, asker: Asker, method: str, message: Envelope, scope: Scope | None) -> None:
        """Pass a backend's request to the client, and its answer back to ``asker``."""

    def withdraw(self, asker: Asker, request_id: Raw, message: Envelope, scope: Scope | None) -> None:
        """The backend cancels a request that was passed on with ``ask``."""

    def subscription_ended(self, uri: str, cause: str) -> None:
        """Updates of the public ``uri`` come no more, because of ``cause``; if the client still wants them."""


def updated(uri: str) -> bytes:
    """``notifications/resources/updated`` for a public URI."""
    return jsonrpc.notification("notifications/resources/updated", b'{"uri":%s}' % jsonrpc.encode(uri))


class Subscriptions:
    """Which clients want the updates of which resources of a mount, by the backend's URIs."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._clients: dict[str, set[Client]] = {}

    @property
    def uris(self) -> tuple[str, ...]:
        """Everything somebody is subscribed to."""
        return tuple(self._clients)

    def add(self, uri: str, client: Client) -> None:
        """One more."""
        self._clients.setdefault(uri, set()).add(client)

    def remove(self, uri: str, client: Client) -> bool:
        """One less; whether nobody is left."""
        clients = self._clients.get(uri, set())
        clients.discard(client)
        if not clients:
            self._clients.pop(uri, None)
        return not clients

    def forget(self, client: Client) -> list[str]:
        """A client left; what nobody is subscribed to any more."""
        mine = [uri for uri, clients in self._clients.items() if client in clients]
        return [uri for uri in mine if self.remove(uri, client)]

    def resumed(self, uri: str) -> None:
        """The backend was subscribed to anew. Whether the resource changed meanwhile nobody knows but who reads it."""
        for client in tuple(self._clients.get(uri, ())):
            client.deliver(updated(public_uri(self._mount.spec.prefix, uri)))

    def refused(self, uri: str, cause: str) -> None:
        """The backend would not be subscribed to anew."""
        for client in self._clients.pop(uri, ()):
            client.subscription_ended(public_uri(self._mount.spec.prefix, uri), cause)

    def updated(self, message: Envelope) -> None:
        """Pass ``notifications/resources/updated`` on, under the public URI."""
        try:
            params = jsonrpc.decode_envelope(message.get("params", jsonrpc.NULL))
            uri = jsonrpc.decode_str(params["uri"])
            meta = jsonrpc.decode_envelope(params.get("_meta", Raw(b"{}")))
        except (jsonrpc.DecodeError, KeyError):
            return
        if meta.pop(META_SUBSCRIPTION, None) is not None:  # names a subscription of ours, not the client's
            del params["_meta"]
            if meta:
                params["_meta"] = Raw(jsonrpc.encode(meta))
        params["uri"] = Raw(jsonrpc.encode(public_uri(self._mount.spec.prefix, uri)))
        message["params"] = Raw(jsonrpc.encode(params))
        body = jsonrpc.encode(message)
        # A server may report a part of what was subscribed to, under its own URI (server/resources).
        for client in {
            each for subscribed, clients in self._clients.items() if uri.startswith(subscribed) for each in clients
        }:
            client.deliver(body)


class Leg:
    """The session of ``client`` with ``mount``; ``client`` None makes it the shared one."""

    def __init__(self, mount: Mount, client: Client | None) -> None:
        self._mount = mount
        self._client = client
        self._session: UpstreamSession | None = None
        self._opening: asyncio.Task[UpstreamSession] | None = None
        self._closed = False
        self._level: str | None = None
        """The log level that the open session was given."""
        self._subscriptions = Subscriptions(mount)

    @property
    def active(self) -> bool:
        """Whether an upstream session is open."""
        return self._session is not None and self._session.fault is None

    @property
    def closed(self) -> bool:
        """Whether the leg is of no more use."""
        return self._closed

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for what the backend says through it, and no session is there to hear it."""
        return bool(self._subscriptions.uris) and not self.active and self._opening is None and not self._closed

    def quote(self, said: bytes) -> str:
        """What the backend said, for a text; without secrets."""
        return self._session.quote(said) if self._session is not None else "(no longer known)"

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

    async def session(self) -> UpstreamSession:
        """The open session, opening one if need be. Raises ChannelError."""
        current = self._session
        if current is not None and current.fault is None:
            return current
        if self._opening is None:
            if self._closed:
                raise Unreachable("the session is closed", executed=False)
            if current is not None:
                self._forget(current)
            self._opening = asyncio.create_task(self._open(), name=f"open {self._mount.label}")
            self._opening.add_done_callback(self._opened)
        # Shielded: others may wait for the same session as the caller that is cancelled.
        try:
            return await asyncio.shield(self._opening)
        except ChannelError as error:
            raise unsent(error) from None

    async def _open(self) -> UpstreamSession:
        hello = PROXY_HELLO if self._client is None else self._client.hello
        session = await self._mount.open_session(hello, self)
        self._level = None
        if self._closed:
            await session.aclose()
            raise Unreachable("the session is closed", executed=False)
        self._session = session
        try:
            await self._resume(session)
        except BaseException:
            self._forget(session)  # else it would serve without what the client had asked for
            raise
        return session

    async def _resume(self, session: UpstreamSession) -> None:
        """Have in a new session what the client had in the one before."""
        if self._subscriptions.uris or (self._client is not None and self._client.listening):
            session.listen()
        if self._client is not None and self._client.log_level is not None:
            await self._set_level(session, self._client.log_level)
        for uri in self._subscriptions.uris:
            await self._subscribe(session, uri)

    def _opened(self, task: asyncio.Task[UpstreamSession]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # every waiter may have gone; the next call tries again and sees it

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

    def _forget(self, session: UpstreamSession) -> None:
        if self._session is session:
            self._session = None
            self._mount.close_session(session)

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

    async def aclose(self) -> None:
        """End the upstream session."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._session is not None:
            session, self._session = self._session, None
            await session.aclose()

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
        if self._client is not None:
            return self._client
        return getattr(scope, "client", None)

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
