"""What mounts need of the clients they work for."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Raw

from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.upstream.session import Asker, Scope
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope

PROXY_HELLO: Final = Hello(client_info=b'{"name":"mcp-connections","version":"1"}', capabilities=b"{}")
"""For sessions that no client stands behind: discovery, and shared ones."""


class Client(Protocol):
    """A client with a session, or one of the stateless era."""

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
