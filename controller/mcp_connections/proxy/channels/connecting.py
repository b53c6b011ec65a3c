"""From a mount's server to its channels: the one place that knows which transport is which class."""

from __future__ import annotations

from typing import Final, Protocol

from mcp_connections.mounts.spec import HttpServer, MountSpec, StdioServer
from mcp_connections.proxy.channels.backend_client import secrets_of
from mcp_connections.proxy.channels.channel import Channel, ProtocolViolation
from mcp_connections.proxy.channels.client_credentials import TokenEndpoint
from mcp_connections.proxy.channels.exits import Exits
from mcp_connections.proxy.channels.http import HttpBackend, StreamableHttpChannel
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.sse import SseChannel
from mcp_connections.proxy.channels.stdio import StdioChannel
from mcp_connections.proxy.channels.tls import client_context
from mcp_connections.proxy.channels.token_keeper import TokenKeeper
from mcp_connections.proxy.channels.websocket import WebSocketChannel

HANDSHAKE_SECONDS: Final = 10.0
STDIO_HANDSHAKE_SECONDS: Final = 60.0
"""Commands such as npx and uvx may have to fetch the server first."""
BRIDGE_HANDSHAKE_SECONDS: Final = STDIO_HANDSHAKE_SECONDS + 5
"""A bridge says in time what its command was too slow for."""


class ChannelFactory(Protocol):
    """Makes the channels of one mount."""

    handshake_seconds: float
    """How long the backend may take to answer initialize."""
    exits: Exits
    """Of the command, where the backend is one."""

    def make(self) -> Channel:
        """A channel, not yet open. Raises ChannelError where the mount's settings are of no use."""

    def close(self) -> None:
        """Let go of what the channels share. All of them are closed by then."""


class Transport:
    """The ChannelFactory for a MountSpec."""

    def __init__(self, spec: MountSpec) -> None:
        self._spec = spec
        self.exits = Exits()
        self._http: HttpBackend | None = None
        self._keeper: TokenKeeper | None = None
        if isinstance(spec.server, StdioServer):
            self.handshake_seconds = STDIO_HANDSHAKE_SECONDS
        else:
            self.handshake_seconds = BRIDGE_HANDSHAKE_SECONDS if spec.server.bridged else HANDSHAKE_SECONDS

    def make(self) -> Channel:
        server = self._spec.server
        label = str(self._spec.connection)
        connect = self._spec.timeouts.connect
        limit = self._spec.limits.message_bytes
        if isinstance(server, StdioServer):
            return StdioChannel(
                server,
                connection=label,
                connect_timeout=connect,
                message_limit=limit,
                on_exit=self.exits.happened,
            )
        keeper = self._token_keeper(server)
        if server.kind == "http":
            return StreamableHttpChannel(self._http_backend(server, keeper))
        duplex = SseChannel if server.kind == "sse" else WebSocketChannel
        return duplex(server, connection=label, connect_timeout=connect, message_limit=limit, keeper=keeper)

    def _token_keeper(self, server: HttpServer) -> TokenKeeper | None:
        credentials = server.client_credentials
        if credentials is None:
            return None
        if self._keeper is None:
            redactor = Redactor(secrets_of(server))
            endpoint = TokenEndpoint(
                credentials,
                ca_bundle=server.ca_bundle,
                timeout=self._spec.timeouts.connect,
                redactor=redactor,
            )
            self._keeper = TokenKeeper(endpoint.fetch, redactor)
        return self._keeper

    def _http_backend(self, server: HttpServer, keeper: TokenKeeper | None) -> HttpBackend:
        if self._http is None:
            try:
                tls = client_context(server)
                self._http = HttpBackend(
                    server,
                    connection=str(self._spec.connection),
                    connect_timeout=self._spec.timeouts.connect,
                    tls=tls,
                    message_limit=self._spec.limits.message_bytes,
                    exits=self.exits,
                    keeper=keeper,
                )
            except ValueError as error:
                raise ProtocolViolation(str(error), executed=False) from None
        return self._http

    def close(self) -> None:
        if self._http is not None:
            self._http.client.close()
        if self._keeper is not None:
            self._keeper.close()
