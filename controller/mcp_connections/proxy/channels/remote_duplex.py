"""What WebSocket and legacy SSE have in common: an HTTP server, reached by an aiohttp client of the channel's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NotRequired, TypedDict, TypeVar, Unpack

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import BackendClient, secrets_of, shown_url
from mcp_connections.proxy.channels.duplex import MESSAGE_LIMIT, DuplexChannel
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.token_keeper import TokenKeeper

Answer = TypeVar("Answer")


class Settings(TypedDict):
    """How a server is talked to."""

    connection: str
    connect_timeout: float
    """Seconds."""
    message_limit: NotRequired[int]
    """Bytes."""
    keeper: NotRequired[TokenKeeper | None]
    """Has the credential where that is none of the configured headers."""


class RemoteDuplexChannel(DuplexChannel):
    """A duplex channel to ``server``."""

    def __init__(self, server: HttpServer, **settings: Unpack[Settings]) -> None:
        keeper = settings.get("keeper")
        super().__init__(
            connection=settings["connection"],
            place=shown_url(server.url),
            connect_timeout=settings["connect_timeout"],
            message_limit=settings.get("message_limit", MESSAGE_LIMIT),
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
