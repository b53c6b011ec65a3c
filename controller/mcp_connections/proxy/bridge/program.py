"""The program behind a bridge, and how a conversation with it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mcp_connections.mounts.spec import StdioServer, Timeouts
from mcp_connections.proxy.channels.exits import Exits
from mcp_connections.proxy.channels.stdio import StdioChannel
from mcp_connections.proxy.registry.client import PROXY_HELLO
from mcp_connections.proxy.upstream.session import UpstreamEvents, UpstreamSession
from mcp_connections.proxy.upstream.stateless import StatelessSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import Envelope

CONNECT_SECONDS: Final = 10.0
"""For starting the process."""
REQUEST_SECONDS: Final = 24 * 3600.0
"""As long as any connection may allow: how long a request really may take is the proxy's to say."""
MESSAGE_BYTES: Final = 1024 * 1024 * 1024
"""The most that a proxy takes; its own limit is what counts."""


class Passage(UpstreamSession):
    """A process of one client's own, which shakes hands with that client itself."""

    era = "handshake"

    async def begin(self, seconds: float) -> None:
        """The client's own ``initialize`` does that."""

    async def pass_on(self, message: Envelope) -> None:
        """Send a notification or a response as it is. Raises ChannelError."""
        await self._channel.send(jsonrpc.encode(message))


class SharedPassage(StatelessSession):
    """A process that all stateless clients use; their requests say everything themselves."""

    async def listen_with(self, message: Envelope, number: int) -> Envelope:
        """A ``subscriptions/listen`` under the id ``number``, by which the program names the subscription; returns when
        it ends. Raises ChannelError."""
        try:
            return await self._exchange(number, message, None, None)
        except BaseException:
            self._abandon(number, "no longer needed")
            raise

    def next_number(self) -> int:
        """The id for a request."""
        return self._next_id()


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a bridge runs."""

    label: str
    """The connection, in errors and logs."""
    command: tuple[str, ...]
    working_dir: str | None = None
    environment: Mapping[str, str] = field(repr=False)
    """The whole of it."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that are kept out of errors and logs."""
    exits: Exits = field(default_factory=Exits)
    """Of all its processes."""

    def passage(self, events: UpstreamEvents) -> Passage:
        """A new process, not yet started."""
        return Passage(self._channel(), hello=PROXY_HELLO, timeouts=_timeouts(), events=events)

    def shared_passage(self, events: UpstreamEvents) -> SharedPassage:
        """The same for stateless clients."""
        return SharedPassage(self._channel(), hello=PROXY_HELLO, timeouts=_timeouts(), events=events)

    def _channel(self) -> StdioChannel:
        server = StdioServer(command=self.command, env=dict(self.environment), working_dir=self.working_dir)
        return StdioChannel(
            server,
            connection=self.label,
            connect_timeout=CONNECT_SECONDS,
            message_limit=MESSAGE_BYTES,
            secrets=self.secrets,
            on_exit=self.exits.happened,
        )


def _timeouts() -> Timeouts:
    return Timeouts(connect=CONNECT_SECONDS, request=REQUEST_SECONDS, max=REQUEST_SECONDS)
