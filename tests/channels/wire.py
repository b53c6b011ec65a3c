"""JSON-RPC messages and a session that records what a channel tells it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from mcp_connections.proxy.channels.channel import Channel, ChannelError
from mcp_connections.proxy.wire.jsonrpc import Envelope


def request(request_id: int, method: str = "echo", **params: Any) -> bytes:
    """A request as the relay sends it."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def notification(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def result_of(message: Envelope) -> Any:
    """The decoded result of a response."""
    return json.loads(bytes(message["result"]))


class Session:
    """What owns a channel in the proxy: gets its messages and its loss."""

    def __init__(self, channel: Channel) -> None:
        self.messages: list[dict[str, Any]] = []
        self.losses: list[ChannelError] = []
        self._changed = asyncio.Event()
        channel.on_message = self.take
        channel.on_lost = self.lost

    def take(self, message: Envelope) -> None:
        self.messages.append({name: json.loads(bytes(raw)) for name, raw in message.items()})
        self._changed.set()

    def lost(self, fault: ChannelError) -> None:
        self.losses.append(fault)
        self._changed.set()

    async def until(self, condition: Callable[[Session], object]) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(20):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()


def ignore(_: Envelope) -> None:
    """An exchange's handler where no message is attributed to it."""


async def ask(channel: Channel, request_id: int, method: str = "echo", **params: Any) -> Any:
    """Exchange one request and return its result."""
    async with asyncio.timeout(30):
        return result_of(await channel.exchange(request_id, request(request_id, method, **params), ignore))


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something becomes true that nothing announces."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
