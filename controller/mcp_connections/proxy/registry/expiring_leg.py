"""A leg whose session is ended when its client has not used it for a while (``session.idleTimeout``).

The leg stays: the next request opens a session again, with the log level the client chose. A session that holds
subscriptions is in use, however quiet it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.leg import Leg
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.wire.jsonrpc import Envelope

if TYPE_CHECKING:
    from mcp_connections.proxy.registry.mount import Mount

log = logging.getLogger(__name__)


class ExpiringLeg(Leg):
    """As Leg; ``idle_timeout`` is in seconds."""

    def __init__(self, mount: Mount, client: Client | None, idle_timeout: float) -> None:
        super().__init__(mount, client)
        self._idle_timeout = idle_timeout
        self._uses = 0
        self._last_used = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def call(self, client: Client, message: Envelope, scope: Scope | None) -> Envelope:
        with self._use():
            return await super().call(client, message, scope)

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        with self._use():  # the client needs the session for its answer
            super().server_request(session, method, message, scope)

    @contextmanager
    def _use(self) -> Iterator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._last_used = asyncio.get_running_loop().time()
            if self._timer is None and not self._closed:
                self._watch(self._idle_timeout)

    def _watch(self, seconds: float) -> None:
        # One timer a session, not one a request: it finds out for itself whether the session was used meanwhile.
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        session = self._session
        if session is None:
            return
        rest = self._last_used + self._idle_timeout - asyncio.get_running_loop().time()
        if self._uses or self._subscriptions.uris:
            self._watch(self._idle_timeout)
        elif rest > 0:
            self._watch(rest)
        else:
            log.info("connection %s: a session was not used for %g s; ending it", self._mount.label, self._idle_timeout)
            self._forget(session)

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await super().aclose()
