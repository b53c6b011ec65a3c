"""Sessions at a bridge: one client, one process, from ``initialize`` to the end of either."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Raw

from mcp_connections.proxy.bridge.program import Passage, Program
from mcp_connections.proxy.channels.channel import ChannelError, Unreachable
from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import Envelope

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 1000
"""Processes at once. Memory ends before that; a proxy has ``session.maxSessions`` for less."""
IDLE_SECONDS: Final = 1800.0
"""A session that nobody used or listened to for so long is ended: the proxy that opened it may be gone."""
SWEEP_SECONDS: Final = 30.0
MAX_QUEUED: Final = 1000
MAX_UNHEARD: Final = 100
"""Messages kept for a client that has no stream open."""
REMEMBERED: Final = 256
"""Sessions of which it is known why they ended."""


class Session:
    """A client and its process. Made by SessionTable.open."""

    def __init__(self, session_id: str, program: Program, on_lost: Callable[[Session, ChannelError], None]) -> None:
        self.id = session_id
        self.running: dict[bytes, asyncio.Task[Any]] = {}
        """Requests in progress by the raw JSON of their id."""
        self.last_used = asyncio.get_running_loop().time()
        self.passage: Passage = program.passage(self)
        self._on_lost = on_lost
        self._stream: Outbox | None = None
        self._unheard = Outbox("no event stream or reconnects", MAX_UNHEARD)

    @property
    def in_use(self) -> bool:
        """Whether a request runs or somebody listens."""
        return bool(self.running) or self._stream is not None

    def open_stream(self) -> Outbox:
        """A stream for what the process says outside requests; it takes the place of an older one."""
        self.close_stream()
        stream = Outbox("its event stream", MAX_QUEUED)
        while not self._unheard.empty():
            stream.push(self._unheard.get_nowait())
        self._stream = stream
        return stream

    def close_stream(self, stream: Outbox | None = None) -> None:
        """End the stream; only ``stream``, if given."""
        current = self._stream
        if current is None or (stream is not None and stream is not current):
            return
        self._stream = None
        current.push(None)

    def deliver(self, message: bytes) -> None:
        """Send a message outside any request."""
        (self._unheard if self._stream is None else self._stream).push(message)

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
        self._ending: set[asyncio.Task[None]] = set()
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
        while self._ending:
            await asyncio.wait(set(self._ending))

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
        for task in tuple(session.running.values()):
            if session.passage.fault is None:
                task.cancel()
        task = asyncio.create_task(session.passage.aclose(), name="end of a session")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

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
