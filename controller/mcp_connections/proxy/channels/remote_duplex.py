"""What WebSocket and legacy SSE have in common: an HTTP server, reached by an aiohttp client of the channel's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import BackendClient, secrets_of, shown_url
from mcp_connections.proxy.channels.duplex import MESSAGE_LIMIT, DuplexChannel
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.token_keeper import TokenKeeper

Answer = TypeVar("Answer")


class RemoteDuplexChannel(DuplexChannel):
    """A duplex channel to ``server``."""

    def __init__(
        self,
        server: HttpServer,
        *,
        connection: str,
        connect_timeout: float,
        message_limit: int = MESSAGE_LIMIT,
        keeper: TokenKeeper | None = None,
    ) -> None:
        """``connect_timeout`` in seconds, ``message_limit`` in bytes. ``keeper`` has the credential where that is none
        of the configured headers."""
        super().__init__(
            connection=connection,
            place=shown_url(server.url),
            connect_timeout=connect_timeout,
            message_limit=message_limit,
            redactor=Redactor(secrets_of(server)) if keeper is None else keeper.redactor,
        )
        self._server = server
        self._keeper = keeper
        self._client: BackendClient | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if self._keeper is not None:
            await self._keeper.token()  # in a time of its own: the token endpoint's is not the backend's
        await super().open()

    async def _authorized(
        self, send: Callable[[dict[str, str]], Awaitable[Answer]], refused: Callable[[Answer], bool]
    ) -> Answer:
        """What ``send`` returns, which gets the headers that are not the same for each request."""
        if self._keeper is None:
            return await send({})
        return await self._keeper.spend(lambda token: send({"Authorization": f"Bearer {token}"}), refused)
