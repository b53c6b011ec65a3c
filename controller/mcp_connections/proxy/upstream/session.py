"""One conversation with one backend, from opening to end, whichever the era.

A session numbers its own requests, hands each inbound message to whom it concerns and bounds every wait. Whether it
serves discovery, one client or several is not its business: it reports to an UpstreamEvents. How it opens is what
its subclasses differ in: ``handshake`` and ``stateless``.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import Raw

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.channels.channel import (
    Channel,
    ChannelError,
    HandshakeRefused,
    ProtocolViolation,
    TimedOut,
    Unreachable,
    unsent,
)
from mcp_connections.proxy.upstream.shared_stream import Running, SharedStream
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.forwarded_headers import Fields
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope

if TYPE_CHECKING:
    from mcp_connections.proxy.upstream.session_slots import SessionSlot

log = logging.getLogger(__name__)

MAX_BACKGROUND: Final = 256
QUOTED: Final = 300
"""Characters of what a backend said that a text of ours repeats."""
NOTICE_SECONDS: Final = 5.0
LAST_NOTICE_SECONDS: Final = 1.0
"""How long a session that ends waits for notifications under way: that a call is cancelled, for one."""


class Scope(Protocol):
    """The client request on whose behalf an upstream request runs."""

    @property
    def fields(self) -> Fields:
        """The header fields of the HTTP request that it came in."""

    def deliver(self, message: bytes) -> None:
        """Send a message of the backend to the client, ahead of the response and on the same stream."""


class Asker(Protocol):
    """Who put a question to a client and awaits the answer."""

    @property
    def waiting(self) -> bool:
        """Whether an answer is still of use."""

    def respond(self, request_id: Raw, member: str, body: bytes) -> None:
        """Answer the question ``request_id``; ``member`` is "result" or "error"."""


class UpstreamEvents(Protocol):
    """Whom a session tells what its backend does on its own account. No method may block."""

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        """The backend asks the client something; answer with ``session.respond``."""

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        """A notification other than progress."""

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        """The transport ended by itself; the session is of no more use."""


class _Progress(NamedTuple):
    token: Raw
    scope: Scope | None
    deadline: asyncio.Timeout
    latest: float
    """Loop time that no progress moves the deadline beyond."""


class UpstreamSession(ABC):
    """A session over ``channel``. Closed for good by ``aclose``; never reopened, a new one is made instead."""

    era: Era

    def __init__(self, channel: Channel, *, hello: Hello, timeouts: Timeouts, events: UpstreamEvents) -> None:
        self._channel = channel
        self._hello = hello
        self._timeouts = timeouts
        self._events = events
        self._last_id = 0
        self._progress: dict[int, _Progress] = {}
        self._asked: weakref.WeakSet[asyncio.Timeout] = weakref.WeakSet()
        """Deadlines of the requests on whose behalf the backend asked the client something last."""
        self._shared = SharedStream(timeouts.max)
        self._background: set[asyncio.Task[None]] = set()
        self.fault: ChannelError | None = None
        """Why the session is of no use any more; None while it is."""
        self.slot: SessionSlot | None = None
        """What the session takes up of ``session.maxSessions``."""
        self.protocol_version = ""
        self.capabilities: dict[str, Any] = {}
        self.server_info: dict[str, Any] = {}
        self.instructions: str | None = None
        channel.on_message = self._received_outside_exchange
        channel.on_lost = self._lost
        channel.on_late = self._shared.answered

    async def connect(self) -> None:
        """Open the transport. Raises ChannelError."""
        await self._channel.open()

    @abstractmethod
    async def begin(self, seconds: float) -> None:
        """Find out that the backend speaks this session's era and what it offers. Raises HandshakeRefused where it
        does not, another ChannelError where nothing can be said."""

    def sign_of_life(self) -> Envelope:
        """A request that any working backend answers quickly."""
        return {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"ping"')}

    @property
    def shares_stream(self) -> bool:
        """Whether all requests share a stream, as over stdio: then the session has one connection or process."""
        return not self._channel.stream_per_request

    def listen(self) -> None:
        """Also receive what the backend sends outside requests."""
        self._channel.listen()

    # requests of this side

    async def request(self, message: Envelope, scope: Scope | None = None) -> Envelope:
        """Send a request and return its response, both otherwise untouched; only ``id`` is this session's.

        The wait is ``timeouts.request`` seconds, begun anew with each progress notification, ``timeouts.max``
        at most. The backend is told of a request that timed out or was cancelled. Raises ChannelError, or RpcError
        where the client's headers are not fit to go with it.
        """
        if self.fault is not None:
            raise unsent(self.fault)
        message = dict(message)  # the caller may have to send it again in another session
        request_id = self._next_id()
        deadline = asyncio.timeout(self._timeouts.request)
        unmoved = deadline.when()
        try:
            async with deadline:
                if (meta := _meta_with_progress(message)) is not None:
                    self._watch_progress(request_id, message, meta, scope, deadline)
                if self.shares_stream:
                    self._shared.running[request_id] = Running(message, scope, deadline)
                return await self._exchange(request_id, message, scope, deadline)
        except TimeoutError:
            self._shared.give_up(request_id)
            self._abandon(request_id, "timed out")
            progress = self._progress.get(request_id)
            raise TimedOut(f"no answer within {self._waited(deadline, progress, unmoved)}") from None
        except asyncio.CancelledError:
            self._shared.give_up(request_id)
            self._abandon(request_id, "cancelled by the client")
            raise
        finally:
            self._progress.pop(request_id, None)
            self._shared.running.pop(request_id, None)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _exchange(
        self, request_id: int, message: Envelope, scope: Scope | None, deadline: asyncio.Timeout | None
    ) -> Envelope:
        message["id"] = Raw(b"%d" % request_id)
        headers = self._header_lines(message)
        if scope is not None and (forwarding := self._channel.forwarding) is not None:
            headers += forwarding.lines(scope.fields)
        return await self._channel.exchange(
            request_id,
            jsonrpc.encode(message),
            lambda inbound: self._received(inbound, scope, deadline),
            headers,
        )

    def quote(self, said: bytes) -> str:
        """The beginning of what the backend said, for an error, a log or a status: on one line, without secrets."""
        return self._channel.redactor.excerpt(said, QUOTED)

    def _result_object(self, answer: Envelope, method: str) -> dict[str, Any]:
        """The decoded result of an opening request. Raises HandshakeRefused for an error, else ProtocolViolation."""
        if (error := answer.get("error")) is not None:
            raise HandshakeRefused(f"the backend refused {method}: {self.quote(bytes(error))}", executed=False)
        try:
            result = jsonrpc.decode_any(answer.get("result", jsonrpc.NULL))
        except jsonrpc.DecodeError as error:
            raise ProtocolViolation(f"the answer to {method} is not valid JSON ({error})") from None
        if not isinstance(result, dict):
            raise ProtocolViolation(f"the answer to {method} holds no result object")
        return result

    def _header_lines(self, message: Envelope) -> bytes:
        """HTTP headers for one request, where the era has any."""
        return b""

    def _watch_progress(
        self, request_id: int, message: Envelope, meta: dict[str, Raw], scope: Scope | None, deadline: asyncio.Timeout
    ) -> None:
        # The client's token is unique among its own requests only, so the backend gets the id of ours.
        latest = asyncio.get_running_loop().time() + self._timeouts.max
        self._progress[request_id] = _Progress(meta["progressToken"], scope, deadline, latest)
        meta["progressToken"] = Raw(b"%d" % request_id)
        params = jsonrpc.decode_envelope(message["params"])
        params["_meta"] = Raw(jsonrpc.encode(meta))
        message["params"] = Raw(jsonrpc.encode(params))

    def _waited(self, deadline: asyncio.Timeout, progress: _Progress | None, unmoved: float | None) -> str:
        """Which limit ended the wait, and how to have more."""
        request, most = f"{self._timeouts.request:g} s", f"{self._timeouts.max:g} s"
        if deadline in self._asked:
            return f"{most} of the backend's last question; raise policy.timeouts.max to allow more"
        if deadline.when() == unmoved:
            return f"{request}; raise policy.timeouts.request to allow more"
        if progress is not None and deadline.when() == progress.latest:
            return f"{most} in all, whatever its progress; raise policy.timeouts.max to allow more"
        return f"{request} of the last progress; raise policy.timeouts.request to allow more"

    def _abandon(self, request_id: int, reason: str) -> None:
        params = b'{"requestId":%d,"reason":%s}' % (request_id, jsonrpc.encode(reason))
        self.notify(jsonrpc.notification("notifications/cancelled", params))

    def notify(self, message: bytes) -> None:
        """Send a notification, or a response, in the background: nobody waits for its fate."""
        if self.fault is None:
            self._spawn(self._send(message))

    @property
    def waiting(self) -> bool:
        """Whether the backend can still be answered."""
        return self.fault is None

    def respond(self, request_id: Raw, member: str, body: bytes) -> None:
        """Answer a request of the backend; ``member`` is "result" or "error"."""
        self.notify(b'{"jsonrpc":"2.0","id":%s,"%s":%s}' % (bytes(request_id), member.encode(), body))

    async def _send(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(NOTICE_SECONDS):
                await self._channel.send(message)
        except (ChannelError, TimeoutError) as error:
            log.debug("a notification was not delivered: %s", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._background) >= MAX_BACKGROUND:
            work.close()
            log.warning("%d messages wait to be sent to a backend; dropped one", MAX_BACKGROUND)
            return
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # messages of the backend

    def _received_outside_exchange(self, message: Envelope) -> None:
        """Where all requests share a stream, a message belongs to the only one that it can belong to."""
        concerned, owner = self._shared.candidates(lambda request: self._can_concern(request, message))
        if owner is not None:
            self._received(message, owner.scope, owner.deadline)
            return
        if "id" in message:
            for request in concerned:
                self._await_person(request.deadline)
        self._received(message, None, None)

    def _can_concern(self, request: Envelope, message: Envelope) -> bool:
        """Whether the backend may send ``message`` on behalf of ``request``."""
        return True

    @property
    def latest_scope(self) -> Scope | None:
        """Of the last request that is still running, where requests share a stream."""
        running = reversed(self._shared.running.values())
        return next((request.scope for request in running if request.scope is not None), None)

    def _received(self, message: Envelope, scope: Scope | None, deadline: asyncio.Timeout | None) -> None:
        method = jsonrpc.method_of(message)
        if method is None:
            return  # a response to a request nobody waits for any more
        if "id" in message:
            if method == "ping":
                self.respond(message["id"], "result", b"{}")
            else:
                if deadline is not None:
                    self._await_person(deadline)
                self._events.server_request(self, method, message, scope)
        elif method == "notifications/progress":
            self._progressed(message)
        else:
            self._events.notified(self, method, message, scope)

    def _await_person(self, deadline: asyncio.Timeout) -> None:
        # Someone is being asked, and people take longer than servers do.
        if not deadline.expired():
            self._asked.add(deadline)
            deadline.reschedule(asyncio.get_running_loop().time() + self._timeouts.max)

    def _progressed(self, message: Envelope) -> None:
        try:
            params = jsonrpc.decode_envelope(message.get("params", jsonrpc.NULL))
            entry = self._progress.get(int(bytes(params["progressToken"]).strip(b'"')))
        except (jsonrpc.DecodeError, KeyError, ValueError):
            return
        if entry is None:
            return  # basic/utilities/progress: only tokens of active requests may be used
        now = asyncio.get_running_loop().time()
        if not entry.deadline.expired():
            self._asked.discard(entry.deadline)
            entry.deadline.reschedule(min(now + self._timeouts.request, entry.latest))
        if entry.scope is not None:
            params["progressToken"] = entry.token
            message["params"] = Raw(jsonrpc.encode(params))
            entry.scope.deliver(jsonrpc.encode(message))

    # the end

    def _lost(self, error: ChannelError) -> None:
        if self.fault is None:
            self.fault = error
            self._events.lost(self, error)

    async def aclose(self) -> None:
        """End the session at the backend too. Returns when that is done or given up; never raises."""
        if self.fault is None:
            self.fault = Unreachable("the session was closed", executed=False)
        if self.slot is not None:
            self.slot.ending()
        try:
            if self._background:
                _, late = await asyncio.wait(self._background, timeout=LAST_NOTICE_SECONDS)
                for task in late:
                    task.cancel()
            await self._channel.aclose()
        finally:
            if self.slot is not None:
                self.slot.free()


def _meta_with_progress(message: Envelope) -> dict[str, Raw] | None:
    raw = message.get("params")
    if raw is None or b'"progressToken"' not in bytes(raw):
        return None
    try:
        meta = jsonrpc.decode_envelope(jsonrpc.decode_envelope(raw).get("_meta", jsonrpc.NULL))
    except jsonrpc.DecodeError:
        return None
    return meta if "progressToken" in meta else None


def object_member(value: object) -> dict[str, Any]:
    """A member of a decoded answer that should be an object; anything else counts as an empty one."""
    return value if isinstance(value, dict) else {}
