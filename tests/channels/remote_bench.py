"""A server of one of the duplex transports over HTTP, and channels to it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Generic, Protocol, TypeVar

import pytest
from aiohttp.web import RouteDef

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.channels.remote_duplex import RemoteDuplexChannel
from tests.channels.servers import serve


class _Routed(Protocol):
    def routes(self) -> list[RouteDef]: ...


B = TypeVar("B", bound=_Routed)
C = TypeVar("C", bound=RemoteDuplexChannel)


class RemoteBench(Generic[B, C]):
    """A backend, and channels to it that are closed at the end of the test."""

    backend_type: type[B]
    channel_type: type[C]
    kind: str
    """Of the connection's server."""
    place: str
    """Scheme and path of the endpoint, with a place for the authority."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.backend = self.backend_type()
        self.authority = ""

    async def start(self, **fields: object) -> B:
        self.backend = self.backend_type(**fields)
        self.authority = await serve(self.stack, self.backend.routes())
        return self.backend

    def channel(
        self,
        path: str = "",
        *,
        url: str | None = None,
        limit: int = 64 * 1024 * 1024,
        timeout: float = 20.0,
        **fields: object,
    ) -> C:
        scheme, usual = self.place.split("*")
        server = HttpServer.model_validate(
            {"kind": self.kind, "url": url or f"{scheme}{self.authority}{path or usual}", **fields}
        )
        channel = self.channel_type(server, connection="team/tools", connect_timeout=timeout, message_limit=limit)
        self.stack.push_async_callback(channel.aclose)
        return channel


async def failing(channel: RemoteDuplexChannel, kind: type[ChannelError], text: str) -> ChannelError:
    """The fault that opening the channel ends with."""
    with pytest.raises(kind, match=text) as caught:
        await channel.open()
    assert type(caught.value) is kind
    assert str(caught.value).startswith("connection team/tools: ")
    assert not caught.value.executed
    return caught.value
