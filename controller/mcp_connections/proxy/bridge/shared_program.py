"""The one process for stateless clients (MCP 2026-07-28): started with the first request, ended when none comes.

Their requests carry all that concerns them, so one process serves all, as where a proxy runs it itself. What has to be
kept apart are ids: each request gets one of the bridge's own, and so does each subscription that is named by one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from msgspec import Raw

from mcp_connections.proxy.bridge.program import Program, SharedPassage
from mcp_connections.proxy.channels.channel import ChannelError, Unreachable, unsent
from mcp_connections.proxy.upstream.endings import Endings
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import META_SUBSCRIPTION
from mcp_connections.proxy.wire.jsonrpc import METHOD_NOT_FOUND, DecodeError, Envelope, RpcError

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 60.0
"""Proxies ask for a sign of life far more often."""


class SharedProgram:
    """Starts the process on demand, again after it ended."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._passage: SharedPassage | None = None
        self._starting = asyncio.Lock()
        self._subscribers: dict[int, tuple[Scope, bytes]] = {}
        """Who listens, and under which id of its own, by the id that the process knows."""
        self._busy = 0
        self._closed = False
        self._idle: asyncio.TimerHandle | None = None
        self._endings = Endings()

    async def request(self, message: Envelope, scope: Scope) -> Envelope:
        """Relay one request. Raises ChannelError."""
        self._begin()
        try:
            return await (await self._started()).request(message, scope)
        finally:
            self._finish()

    async def listen(self, message: Envelope, scope: Scope) -> Envelope:
        """Relay a ``subscriptions/listen``; what belongs to it is delivered to ``scope``. Raises ChannelError."""
        self._begin()
        number = 0
        try:
            passage = await self._started()
            number = passage.next_number()
            own = bytes(message["id"])
            self._subscribers[number] = (scope, own)
            answer = await passage.listen_with(dict(message), number)
            return _naming(answer, "result", own)
        finally:
            self._subscribers.pop(number, None)
            self._finish()

    async def aclose(self) -> None:
        """End the process; returns once it is gone. No other one is started after that."""
        self._closed = True
        self._stop()
        await self._endings.wait()

    async def _started(self) -> SharedPassage:
        async with self._starting:
            if self._passage is None or self._passage.fault is not None:
                passage = self._program.shared_passage(self)
                try:
                    self._refuse_if_closed()
                    await passage.connect()
                    self._refuse_if_closed()
                except BaseException as error:
                    self._endings.add(passage.aclose())
                    raise unsent(error) if isinstance(error, ChannelError) else error from None
                self._passage = passage
            return self._passage

    def _begin(self) -> None:
        self._busy += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _finish(self) -> None:
        self._busy -= 1
        if self._busy == 0 and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._stop)

    def _stop(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        passage, self._passage = self._passage, None
        if passage is not None:
            self._endings.add(passage.aclose())

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unreachable("the bridge is being stopped", executed=False)

    # UpstreamEvents

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        error = RpcError(METHOD_NOT_FOUND, f"{method}: servers do not send requests in this protocol version")
        session.respond(message["id"], "error", error.body())

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        subscriber = self._subscribers.get(_subscription(message))
        if subscriber is not None:
            listening, own = subscriber
            listening.deliver(jsonrpc.encode(_naming(message, "params", own)))
        elif scope is not None:
            scope.deliver(jsonrpc.encode(message))

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        log.warning("the process of stateless clients ended: %s", error)
        if session is self._passage:
            self._stop()


def _subscription(message: Envelope) -> int:
    """The id of the subscription that a notification names; 0, which none has, where it names none."""
    try:
        meta = jsonrpc.decode_envelope(jsonrpc.decode_envelope(message["params"])["_meta"])
        return int(bytes(meta[META_SUBSCRIPTION]).strip(b'"'))
    except (DecodeError, KeyError, ValueError):
        return 0


def _naming(message: Envelope, member: str, subscription: bytes) -> Envelope:
    """The message with the client's own id for the subscription that ``member`` names, if it names one."""
    try:
        body = jsonrpc.decode_envelope(message[member])
        meta = jsonrpc.decode_envelope(body["_meta"])
    except (DecodeError, KeyError):
        return message
    if META_SUBSCRIPTION not in meta:
        return message
    meta[META_SUBSCRIPTION] = Raw(subscription)
    body["_meta"] = Raw(jsonrpc.encode(meta))
    return {**message, member: Raw(jsonrpc.encode(body))}
