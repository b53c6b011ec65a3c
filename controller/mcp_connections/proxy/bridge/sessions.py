"""Sessions at a bridge: one client, one process, from ``initialize`` to the end of either."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Raw

from mcp_connections.proxy.bridge.program import Passage, Program
from mcp_connections.proxy.channels.channel import ChannelError, Unreachable
from mcp_connections.proxy.downstream.running_requests import RunningRequests
from mcp_connections.proxy.downstream.unasked_messages import UnaskedMessages
from mcp_connections.proxy.upstream.endings import Endings
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import Envelope

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 1000
"""Processes at once. Memory ends before that; a proxy has ``session.maxSessions`` for less."""
IDLE_SECONDS: Final = 1800.0
"""A session that nobody used or listened to for so long is ended: the proxy that opened it may be gone."""
SWEEP_SECONDS: Final = 30.0
REMEMBERED: Final = 256
"""Sessions of which it is known why they ended."""


class Session(UnaskedMessages):
    """A client and its process. Made by SessionTable.open."""

    def __init__(self, session_id: str, program: Program, on_lost: Callable[[Session, ChannelError], None]) -> None:
        super().__init__()
        self.id = session_id
        self.running = RunningRequests()
        """Requests in progress by the raw JSON of their id."""
        self.last_used = asyncio.get_running_loop().time()
        self.passage: Passage = program.passage(self)
        self._on_lost = on_lost

    @property
    def in_use(self) -> bool:
        """Whether a request runs or somebody listens."""
        return bool(self.running) or self.listening

    # UpstreamEvents

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        # Its id is the process's own and stays: the process has no other client that could answer.
        (scope or session.latest_scope or self).deliver(jsonrpc.encode(message))

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        if method == "notifications/cancelled":
            scope = scope or session.latest_scope  # where the question went
        (scope or self).deliver(jsonrpc.encode(message))

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        self._on_lost(self, error)


class SessionTable:
    """All sessions of one bridge."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._sessions: dict[str, Session] = {}
        self._ended: OrderedDict[str, ChannelError] = OrderedDict()
        self._endings = Endings()
        self._sweeper: asyncio.TimerHandle | None = None
        self._opening = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another session."""
        return len(self._sessions) + self._opening >= MAX_SESSIONS

    def new(self) -> Session:
        """A session of which the table knows nothing yet."""
        return Session(secrets.token_urlsafe(24), self._program, self._lost)

    async def open(self, session: Session, initialize: Callable[[], Awaitable[Envelope]]) -> Envelope:
        """Start the process of a new session, and return the answer to ``initialize``; one that is an error ends the
        session again.

        Raises ChannelError where the program cannot be started, or ends before it has answered.
        """
        self._opening += 1
        try:
            self._refuse_if_closed()
            await session.passage.connect()
            answer = await initialize()
            self._refuse_if_closed()
        except BaseException:
            self._end(session)
            raise
        finally:
            self._opening -= 1
        if session.passage.fault is not None or "error" in answer:
            self._end(session)
            return answer
        self._sessions[session.id] = session
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
        return answer

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unreachable("the bridge is being stopped", executed=False)

    def get(self, session_id: str) -> Session | None:
        """The session with this id, marked as used now."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.last_used = asyncio.get_running_loop().time()
        return session

    def cause_of_end(self, session_id: str) -> ChannelError | None:
        """Why a session ended by itself, if that is still known."""
        return self._ended.get(session_id)

    def close(self, session: Session) -> None:
        """End a session."""
        if self._sessions.pop(session.id, None) is not None:
            self._end(session)

    def close_streams(self) -> None:
        """End all streams, so that a server that stops does not wait for them."""
        for session in self._sessions.values():
            session.close_stream()

    async def aclose(self) -> None:
        """End all sessions and return once no process is left. No other one is started after that."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in tuple(self._sessions.values()):
            self.close(session)
        await self._endings.wait()

    def _lost(self, session: Session, error: ChannelError) -> None:
        if self._sessions.pop(session.id, None) is None:
            return
        log.warning("a session ended: %s", error)
        self._ended[session.id] = error
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        session.close_stream()
        self._end(session)

    def _end(self, session: Session) -> None:
        session.close_stream()
        if session.passage.fault is None:
            session.running.cancel_all()
        self._endings.add(session.passage.aclose())

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for session in tuple(self._sessions.values()):
            if session.last_used < loop.time() - IDLE_SECONDS and not session.in_use:
                log.info("a session was idle for %g s; its process is ended", IDLE_SECONDS)
                self.close(session)
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep) if self._sessions else None


def with_id(answer: Envelope, request_id: bytes) -> bytes:
    """A response as the client that asked under ``request_id`` gets it."""
    return jsonrpc.encode({**answer, "id": Raw(request_id)})
