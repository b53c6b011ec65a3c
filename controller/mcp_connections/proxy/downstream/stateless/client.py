"""Clients of the stateless era, towards backends that insist on a session.

Such a client has no session of its own, so its requests to such a backend share one that is pooled for its principal
and for what it says of itself: a backend is told the truth about whom it may ask what.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final, Protocol

from msgspec import Raw

from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.downstream.client_capability import refusal
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.upstream.session import Asker, Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import METHOD_NOT_FOUND, Envelope, RpcError
from mcp_connections.proxy.wire.log_level import LOG_LEVELS

MAX_CLIENTS: Final = 256
IDLE_SECONDS: Final = 300.0
SWEEP_SECONDS: Final = 30.0


NOBODY: Final = RpcError(METHOD_NOT_FOUND, "it cannot be told which of the client's requests this question belongs to")


class Interactive(Scope, Protocol):
    """A scope whose request can be answered with a question."""

    def ask(self, asker: Asker, method: str, message: Envelope) -> None:
        """Have the client asked in the answer to its request."""


class PooledClient:
    """All stateless requests of one principal that describe their client alike."""

    era: Era = "stateless"
    listening = False

    def __init__(self, principal: Principal, hello: Hello, capabilities: dict[str, Any]) -> None:
        self.principal = principal
        self.hello = hello
        self.capabilities = capabilities
        self.log_level: str | None = None
        self.last_used = 0.0
        self.interactive: set[Interactive] = set()
        """Requests under way that may be answered with a question."""
        self.busy = 0

    def want_logs(self, level: str) -> str:
        """A request asks for ``level``. The level for the shared session, the lowest that any request asked for: what
        is too much for one is kept from it on its own way back."""
        if self.log_level is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(self.log_level):
            self.log_level = level
        return self.log_level

    def deliver(self, message: bytes) -> None:
        """There is no way to a stateless client outside its requests."""

    def ask(self, asker: Asker, method: str, message: Envelope, scope: Scope | None) -> None:
        """Turn a backend's request into a question in the answer to the client's own request."""
        error = refusal(method, message, self.capabilities)
        request = (
            self._only_one() if scope is None else next((each for each in self.interactive if each is scope), None)
        )
        if error is None and request is None:
            error = RpcError(
                METHOD_NOT_FOUND, f"{method}: it cannot be told which of the client's requests this belongs to"
            )
        if error is not None or request is None:
            asker.respond(message["id"], "error", (error or NOBODY).body())
        else:
            request.ask(asker, method, message)

    def _only_one(self) -> Interactive | None:
        return next(iter(self.interactive)) if len(self.interactive) == 1 else None

    def withdraw(self, asker: Asker, request_id: Raw, message: Envelope, scope: Scope | None) -> None:
        """A question once given as an answer cannot be taken back; the answer to it will find nobody."""

    def subscription_ended(self, uri: str, cause: str) -> None:
        """Such a client subscribes with a stream of its own."""


class ClientPool:
    """The PooledClients of one process: the least recently used make room, idle ones end."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._clients: OrderedDict[tuple[str, bytes, bytes], PooledClient] = OrderedDict()
        self._sweeper: asyncio.TimerHandle | None = None

    def get(self, principal: Principal, hello: Hello) -> PooledClient:
        """The client for a request of ``principal``. Raises RpcError where its capabilities are no object."""
        loop = asyncio.get_running_loop()
        key = (principal.key, hello.client_info, hello.capabilities)
        client = self._clients.get(key)
        if client is None:
            capabilities = jsonrpc.decode_any(hello.capabilities)
            if not isinstance(capabilities, dict):
                raise RpcError(jsonrpc.INVALID_PARAMS, "the client capabilities in params._meta must be an object")
            client = self._clients[key] = PooledClient(principal, hello, capabilities)
            if len(self._clients) > MAX_CLIENTS:
                self._drop_oldest()
            if self._sweeper is None:
                self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep)
        self._clients.move_to_end(key)
        client.principal = principal  # a newer token may carry other scopes
        client.last_used = loop.time()
        return client

    def _drop_oldest(self) -> None:
        for key, client in self._clients.items():
            if not client.busy:
                self._end(key)
                return

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        for key, client in tuple(self._clients.items()):
            if client.last_used < oldest and not client.busy:
                self._end(key)
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep) if self._clients else None

    def _end(self, key: tuple[str, bytes, bytes]) -> None:
        client = self._clients.pop(key)
        for mount in self._registry.mounts:
            mount.forget(client)
