"""How many control sessions trouble one server at a time.

Many connections may lead to one process. All of them connecting at once, after a restart of either side, may be more
than it answers before their time is up, and then they do it again: the load that was too much never ends. The same goes
for pings. So they take turns at each origin, and the time of each runs from its turn.

An origin may be a gateway with many servers behind it, of which some hang. Those must not keep the others waiting for
as long as they hang: a turn at which nothing happens is passed on.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from mcp_connections.mounts.spec import Server, StdioServer

AT_ONCE: Final = 16
"""Connections that try at the same time, and as many that ping. A server of one process that takes a third of a second
for a handshake gets through them in half of the time that each has."""
AGAIN_AT_ONCE: Final = AT_ONCE // 2
"""How many of them may be some whose last attempt failed: one that is new, or has just lost its session, is likelier to
get through."""
STALLED: Final = 2.0
"""Seconds after which a turn to connect is passed on, if nobody got through at the origin meanwhile. A server that is
merely slow lets one of ``AT_ONCE`` through now and then."""
PING_TURN: Final = 1.0
"""Seconds after which the next may ping though there is no answer yet: of many connections to a server that has gone
quiet the last has to learn of it soon, too."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_Origin = tuple[str, str, int | None]


class Turns:
    """The turns at one origin (RFC 6454), or those of nobody else. First come, first served."""

    def __init__(self) -> None:
        self._connecting = asyncio.Semaphore(AT_ONCE)
        self._again = asyncio.Semaphore(AGAIN_AT_ONCE)
        self._pinging = asyncio.Semaphore(AT_ONCE)
        self._through_at = -math.inf
        """Loop time when somebody got through last."""

    @asynccontextmanager
    async def to_connect(self, *, again: bool) -> AsyncIterator[None]:
        """From the first byte until the lists are read, or until the origin has stalled. ``again``: the last attempt
        failed."""
        loop = asyncio.get_running_loop()
        with ExitStack() as turn:  # ends once, be it now or then
            for places in (self._again, self._connecting) if again else (self._connecting,):
                await places.acquire()
                turn.callback(places.release)
            began = loop.time()
            look: asyncio.TimerHandle | None = None

            def pass_on_if_stalled() -> None:
                nonlocal look
                left = max(began, self._through_at) + STALLED - loop.time()
                if left > 0:
                    look = loop.call_later(left, pass_on_if_stalled)
                else:
                    turn.close()

            pass_on_if_stalled()
            try:
                yield
                self._through_at = loop.time()
            finally:
                if look is not None:
                    look.cancel()

    @asynccontextmanager
    async def to_ping(self) -> AsyncIterator[None]:
        """Until the answer, for ``PING_TURN`` seconds at most."""
        await self._pinging.acquire()
        with ExitStack() as turn:  # ends once, be it now or then
            turn.callback(self._pinging.release)
            end = asyncio.get_running_loop().call_later(PING_TURN, turn.close)
            turn.callback(end.cancel)
            yield


class TurnsByOrigin:
    """The turns of all origins that anybody connects to."""

    def __init__(self) -> None:
        self._turns: weakref.WeakValueDictionary[_Origin, Turns] = weakref.WeakValueDictionary()

    def at(self, server: Server) -> Turns:
        """The turns at the origin of ``server``. A command is started for one connection alone."""
        if isinstance(server, StdioServer):
            return Turns()
        origin = _origin(server.url)
        turns = self._turns.get(origin)
        if turns is None:
            turns = self._turns[origin] = Turns()
        return turns


def _origin(url: str) -> _Origin:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "", url, None  # of no use; connecting says why
