"""Opening sessions with a backend again on behalf of clients that wait for what it says on its own account.

A client that only waits makes no request that would open its session again, so it is done for it: a few at a time, in
the background, and whatever comes of it, the client's next request tries for itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.leg import Leg
from mcp_connections.proxy.registry.stateless_leg import StatelessLeg
from mcp_connections.proxy.wire.jsonrpc import RpcError

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Sessions of one mount that are opened again at a time: a backend that is back is not met by all of its clients."""


class Restorer:
    """What is being opened again at one mount."""

    def __init__(
        self,
        label: str,
        legs: Callable[[], Iterable[Leg | StatelessLeg]],
        open_for: Callable[[Client], Coroutine[Any, Any, None]],
    ) -> None:
        """``open_for`` opens the session of a client that has no leg yet."""
        self.turns = asyncio.Semaphore(AT_ONCE)
        self.expected: tuple[Client, ...] = ()
        """Clients to open sessions for once the backend is there."""
        self._label = label
        self._legs = legs
        self._open_for = open_for
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def expect(self, clients: Iterable[Client]) -> None:
        """Have sessions opened for those of ``clients`` that listen."""
        self.expected = tuple(client for client in clients if client.listening)

    def backend_is_there(self) -> None:
        """Open what is waited for."""
        expected, self.expected = self.expected, ()
        for client in expected:
            self._start(partial(self._open_for, client))
        for leg in self._legs():
            self.restore(leg)

    def restore(self, leg: Leg | StatelessLeg) -> None:
        """Open the session of a leg again if somebody waits for what the backend says through it."""
        if leg.awaited:
            self._start(leg.session)

    def _start(self, opening: Callable[[], Coroutine[Any, Any, object]]) -> None:
        if self._stopped:
            return
        task = asyncio.create_task(self._run(opening), name=f"restore a session {self._label}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, opening: Callable[[], Coroutine[Any, Any, object]]) -> None:
        async with self.turns:
            try:
                await opening()
            except (ChannelError, RpcError) as error:
                log.info("connection %s: a client's session could not be opened again: %s", self._label, error)

    def stop(self) -> None:
        """The mount retires."""
        self._stopped = True
        self.expected = ()
        for task in self._tasks:
            task.cancel()
