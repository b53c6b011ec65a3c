"""What WebSocket and legacy SSE have in common: an HTTP server, reached by an aiohttp client of the channel's own."""

from __future__ import annotations

import asyncio

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import BackendClient, secrets_of, shown_url
from mcp_connections.proxy.channels.duplex import MESSAGE_LIMIT, DuplexChannel
from mcp_connections.proxy.channels.redaction import Redactor


class RemoteDuplexChannel(DuplexChannel):
    """A duplex channel to ``server``."""

    def __init__(
        self, server: HttpServer, *, connection: str, connect_timeout: float, message_limit: int = MESSAGE_LIMIT
    ) -> None:
        """``connect_timeout`` in seconds, ``message_limit`` in bytes."""
        super().__init__(
            connection=connection,
            place=shown_url(server.url),
            connect_timeout=connect_timeout,
            message_limit=message_limit,
            redactor=Redactor(secrets_of(server)),
        )
        self._server = server
        self._client: BackendClient | None = None
        self._reader: asyncio.Task[None] | None = None
