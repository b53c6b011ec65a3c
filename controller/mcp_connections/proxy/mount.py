"""A mounted backend: its control session, its catalogue, its clients' sessions, and how it ends.

One supervisor task owns the control session: it connects, discovers, watches (list_changed, pings, refresh interval)
and, whatever fails, tries again with growing pauses. Calls do not wait for it: they run in the clients' own sessions
and tell it what they saw.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar

from mcp_connections.mounts.report import (
    CatalogNote,
    CatalogReport,
    MountReport,
    Phase,
    RetiredMount,
    RetireReason,
    ServerReport,
)
from mcp_connections.mounts.spec import MountSpec
from mcp_connections.proxy import jsonrpc
from mcp_connections.proxy.catalogue import PublicCatalogue, publish
from mcp_connections.proxy.channel import (
    ChannelError,
    Envelope,
    HandshakeRefused,
    ProtocolViolation,
    SessionLost,
    TimedOut,
)
from mcp_connections.proxy.connecting import ChannelFactory
from mcp_connections.proxy.discovery import BackendCatalogue, discover
from mcp_connections.proxy.eras import Era
from mcp_connections.proxy.jsonrpc import INTERNAL_ERROR, RpcError
from mcp_connections.proxy.leg import PROXY_HELLO, Client, Leg
from mcp_connections.proxy.opening import open_session
from mcp_connections.proxy.stateless import StatelessSession
from mcp_connections.proxy.stateless_leg import StatelessLeg
from mcp_connections.proxy.upstream import Hello, Scope, UpstreamEvents, UpstreamSession

log = logging.getLogger(__name__)

HEALTH_INTERVAL: Final = 15.0
PING_SECONDS: Final = 5.0
DISCOVERY_SECONDS: Final = 30.0
BURST_SECONDS: Final = 0.05
"""How long a burst of list_changed is collected before the lists are read again."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0

Result = TypeVar("Result")
Notice = Literal["lost", "changed", "suspect"]


class Mount:
    """One backend in the table of a registry. Made by the registry only, once per fingerprint."""

    def __init__(
        self,
        spec: MountSpec,
        *,
        separator: str,
        channels: ChannelFactory,
        on_change: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self.spec = spec
        self.label = str(spec.connection)
        self.since = now()
        self.attempted = asyncio.Event()
        """Set once the first attempt to connect has ended, well or badly."""
        self.started_at = 0.0
        """Loop time of the first attempt to connect."""
        self.public: PublicCatalogue | None = None
        self.failed_phase: Phase | None = None
        self.closed = asyncio.Event()
        """Set once nothing of the mount is left: sessions deleted, process groups gone."""
        self.retirement: RetiredMount | None = None
        self.in_flight = 0
        self._separator = separator
        self._channels = channels
        self._on_change = on_change
        self._now = now
        self._own: BackendCatalogue | None = None
        self._control: UpstreamSession | None = None
        self._live = False
        self._notices: set[Notice] = set()
        self._noticed = asyncio.Event()
        self._reason = "Connecting"
        self._message = "the first attempt to connect has not ended yet"
        self._last_handshake: datetime | None = None
        self._last_error: str | None = None
        self._next_retry: datetime | None = None
        self._server: ServerReport | None = None
        self._instructions: str | None = None
        self._capabilities: dict[str, object] = {}
        self._grace: asyncio.TimerHandle | None = None
        self._era: Era | None = None
        self._serves_both: bool | None = None
        self._legs: dict[Client | None, Leg] = {}
        self._stateless: StatelessLeg | None = None
        self._stateless_sessions: weakref.WeakSet[StatelessSession] = weakref.WeakSet()
        self._running: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._abort: RpcError | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._supervisor: asyncio.Task[None] | None = None
        self._ender: asyncio.Task[None] | None = None

    # what others may know

    @property
    def ready(self) -> bool:
        """A live control session and a catalogue."""
        return self._live and self.retirement is None

    @property
    def capabilities(self) -> dict[str, object]:
        """What the backend declared in its last handshake."""
        return self._capabilities

    @property
    def offers_subscriptions(self) -> bool:
        """Whether clients can be told of updates of its resources."""
        resources = self._capabilities.get("resources")
        return isinstance(resources, dict) and resources.get("subscribe") is True

    def schema_with_headers(self, tool: str) -> object | None:
        """The input schema of a tool, by the backend's name, if some of its arguments are repeated in headers."""
        if self._own is None or tool not in self._own.arguments_in_headers:
            return None
        item = next(item for item in self._own.items["tool"] if item.identity == tool)
        schema: object = jsonrpc.decode_any(item.members["inputSchema"])
        return schema

    @property
    def instructions(self) -> str | None:
        """What the backend tells models about itself."""
        return self._instructions

    def report(self, clashes: tuple[CatalogNote, ...] = ()) -> MountReport:
        """The mount as it is now."""
        return MountReport(
            connection=self.spec.connection,
            fingerprint=self.spec.fingerprint,
            prefix=self.spec.prefix,
            transport=self.spec.server.kind,
            ready=self.ready,
            attempted=self.attempted.is_set(),
            reason=self._reason,
            message=self._message,
            phase=self.failed_phase,
            since=self.since,
            in_flight=self.in_flight,
            sessions=sum(leg.active for leg in self._legs.values()) + (self._control is not None),
            server=self._server,
            catalog=self._catalog_report(clashes),
            last_handshake=self._last_handshake,
            last_error=self._last_error,
            next_retry=self._next_retry,
        )

    def _catalog_report(self, clashes: tuple[CatalogNote, ...]) -> CatalogReport:
        public = self.public
        if public is None:
            return CatalogReport()
        left_out = {(note.kind, note.name) for note in clashes}
        served = {
            kind: [item.identity for item in items if (kind, item.identity) not in left_out]
            for kind, items in public.items.items()
        }
        return CatalogReport(
            tools=len(served.get("tool", ())),
            resources=len(served.get("resource", ())),
            resource_templates=len(served.get("resourceTemplate", ())),
            prompts=len(served.get("prompt", ())),
            hash=public.digest,
            names=tuple(served.get("tool", ())[:50]),
            skipped=public.skipped + clashes,
            notices=public.notices,
        )

    # supervision

    def start(self) -> None:
        """Begin to connect."""
        self.started_at = asyncio.get_running_loop().time()
        self._supervisor = asyncio.create_task(self._supervise(), name=f"mount {self.label}")

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            established_at = math.inf
            try:
                await self._establish()
                established_at = loop.time()
                await self._watch()
            except SessionLost as error:
                if loop.time() - established_at > FIRST_PAUSE:
                    log.info("connection %s: %s; opening another one", self.label, error)
                    continue
                self._failed(error)
            except ChannelError as error:
                self._failed(error)
            except Exception as error:
                # A defect must cost this mount a retry, not its life; the traceback is the report.
                log.exception("connection %s: unexpected failure", self.label)
                self._failed(ChannelError(f"unexpected failure: {error!r}"))
            finally:
                self._drop_control()
            # A backend that comes and goes is given as much rest as one that does not come.
            failures = 1 if loop.time() - established_at > LONGEST_PAUSE else failures + 1
            await self._pause(failures)

    async def _establish(self) -> None:
        self._notices.clear()
        self._noticed.clear()
        self._serves_both = None
        session = await self._open_control()
        self._control = session
        self.failed_phase = "Discover"
        if isinstance(session, StatelessSession):
            self._stateless_sessions.add(session)
        await self._refresh(session)
        self.failed_phase = None
        self._server = ServerReport(
            name=str(session.server_info.get("name", "")),
            version=str(session.server_info.get("version", "")),
            protocol_version=session.protocol_version,
        )
        self._instructions = session.instructions
        self._capabilities = session.capabilities
        self._last_handshake = self._now()
        self._reason, self._message = "Ready", "connected"
        self._next_retry = None
        self._live = True
        self._keep_catalogue()
        if self._last_error is not None or not self.attempted.is_set():
            log.info("connection %s: ready", self.label)
        self._last_error = None
        self.attempted.set()
        self._on_change()
        session.listen()

    async def _open_control(self) -> UpstreamSession:
        """The control session: of the era that the backend had last, or of the other one if that is refused."""
        eras: tuple[Era, ...] = ("stateless", "handshake") if self._era == "stateless" else ("handshake", "stateless")
        session = await self._open(eras, PROXY_HELLO, _ControlEvents(self), self._enter)
        if session.era != self._era:
            self._era = session.era
            self._dismiss_legs()
        return session

    def _enter(self, phase: Phase) -> None:
        self.failed_phase = phase

    async def open_session(self, hello: Hello, events: UpstreamEvents) -> UpstreamSession:
        """A new session of the handshake era, for a client's leg. Raises ChannelError."""
        return await self._open(("handshake",), hello, events, lambda phase: None)

    async def open_stateless_session(self, events: UpstreamEvents) -> StatelessSession:
        """A new session of the stateless era. Raises ChannelError; HandshakeRefused where the backend has none."""
        session = await self._open(("stateless",), PROXY_HELLO, events, lambda phase: None)
        assert isinstance(session, StatelessSession)
        if self._own is not None:
            session.arguments_in_headers = self._own.arguments_in_headers
        self._stateless_sessions.add(session)
        return session

    async def _open(
        self, eras: tuple[Era, ...], hello: Hello, events: UpstreamEvents, entered: Callable[[Phase], None]
    ) -> UpstreamSession:
        return await open_session(
            self._channels,
            eras=eras,
            hello=hello,
            timeouts=self.spec.timeouts,
            events=events,
            close=self.close_session,
            entered=entered,
        )

    async def _refresh(self, session: UpstreamSession) -> None:
        own = await discover(session, DISCOVERY_SECONDS)
        if self._own is None or own.digest != self._own.digest or own.notes != self._own.notes:
            self._own = own
            for stateless in self._stateless_sessions:
                stateless.arguments_in_headers = own.arguments_in_headers
            self.public = publish(own, self.spec.prefix, self._separator)
            self._on_change()

    def rename(self, separator: str) -> None:
        """Publish under another separator; sessions and calls go on."""
        self._separator = separator
        if self._own is not None:
            self.public = publish(self._own, self.spec.prefix, separator)

    async def _watch(self) -> None:
        """Returns never; raises ChannelError once the session is of no more use."""
        session = self._control
        assert session is not None
        loop = asyncio.get_running_loop()
        refresh_at = loop.time() + self._refresh_pause()
        while True:
            try:
                async with asyncio.timeout(max(0.0, min(HEALTH_INTERVAL, refresh_at - loop.time()))):
                    await self._noticed.wait()
            except TimeoutError:
                self._notices.add("suspect")
            if session.fault is not None:
                raise session.fault
            changed = "changed" in self._notices or loop.time() >= refresh_at
            if changed:
                await asyncio.sleep(BURST_SECONDS)
            self._notices.clear()
            self._noticed.clear()
            if not changed:
                await self._probe(session)
                continue
            refresh_at = loop.time() + self._refresh_pause()
            try:
                await self._refresh(session)
            except ChannelError as error:
                log.warning("connection %s: the lists could not be read again: %s", self.label, error)
                await self._probe(session)

    def _refresh_pause(self) -> float:
        # Spread, so that mounts made together do not refresh together.
        return self.spec.catalog.refresh_interval * random.uniform(0.9, 1.0)  # noqa: S311

    async def _probe(self, session: UpstreamSession) -> None:
        """Ping, and once more before a single lost answer counts as an outage. Raises ChannelError."""
        try:
            await self._ping(session)
        except TimedOut:
            await self._ping(session)

    async def _ping(self, session: UpstreamSession) -> float:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(PING_SECONDS):
                await session.request(session.sign_of_life())  # an error response is a sign of life too
        except TimeoutError:
            raise TimedOut(f"no sign of life within {PING_SECONDS:g} s") from None
        return time.perf_counter() - started

    async def check(self) -> float:
        """Ping the backend now; seconds it took. Raises ChannelError."""
        session = self._control
        if session is None:
            raise ChannelError(self._message)
        return await self._ping(session)

    def list_changed(self) -> None:
        """The backend says that its lists changed."""
        self._notice("changed")

    def suspect(self) -> None:
        """A call failed on the way to the backend, or in it: look at once whether it is still there."""
        self._notice("suspect")

    def _notice(self, notice: Notice) -> None:
        self._notices.add(notice)
        self._noticed.set()

    def _failed(self, error: ChannelError) -> None:
        self._live = False
        self._reason = error.reason
        self._message = str(error)
        if self._last_error != str(error):
            log.warning("connection %s: %s: %s", self.label, error.reason, error)
        self._last_error = str(error)
        if self.public is not None and self._grace is None:
            grace = self.spec.catalog.removal_grace
            self._grace = asyncio.get_running_loop().call_later(grace, self._withdraw)
        self.attempted.set()
        self._on_change()

    def _keep_catalogue(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _withdraw(self) -> None:
        log.warning(
            "connection %s: still not back after %g s; its catalogue is withdrawn",
            self.label,
            self.spec.catalog.removal_grace,
        )
        self._grace = None
        self._own = None
        self.public = None
        self._on_change()

    def _drop_control(self) -> None:
        session, self._control = self._control, None
        if session is not None:
            self.close_session(session)

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt: 0.5 s doubled with each failure, 30 s at most. A call that a client
        makes in the meantime cuts the wait short, but not below the shortest."""
        pause = min(FIRST_PAUSE * 2 ** max(0, min(failures - 1, 10)), LONGEST_PAUSE)
        pause *= random.uniform(0.8, 1.0)  # noqa: S311
        self._next_retry = self._now() + timedelta(seconds=pause)
        shortest = min(pause, FIRST_PAUSE)
        await asyncio.sleep(shortest)
        try:
            async with asyncio.timeout(pause - shortest):
                await self._noticed.wait()
        except TimeoutError:
            pass

    def wake(self) -> None:
        """Try to connect now rather than at the end of the pause."""
        self._notice("suspect")

    # calls

    async def _leg(self, client: Client) -> Leg | StatelessLeg:
        """The client's way to this backend: a session of its own, the one that all clients share, or none at all."""
        if await self.is_stateless_for(client):
            if self._stateless is None:
                self._stateless = StatelessLeg(self)
            return self._stateless
        key = None if self.spec.session == "Shared" else client
        leg = self._legs.get(key)
        if leg is None:
            leg = self._legs[key] = Leg(self, key)
        return leg

    async def is_stateless_for(self, client: Client) -> bool:
        """Whether the client's requests are relayed without a session."""
        return self._era == "stateless" or (client.era == "stateless" and await self._has_stateless_era())

    async def _has_stateless_era(self) -> bool:
        """Whether a backend that shakes hands also serves the stateless era; asked once per connection to it."""
        if self._serves_both is None:
            if self._stateless is None:
                self._stateless = StatelessLeg(self)
            try:
                await self._stateless.session()
                self._serves_both = True
            except (HandshakeRefused, ProtocolViolation, TimedOut):
                self._serves_both = False
        return self._serves_both

    def _dismiss_legs(self) -> None:
        """The backend is of another era than before: its old sessions are of no use."""
        for leg in self._legs.values():
            self._end(leg.aclose())
        self._legs.clear()
        if self._stateless is not None:
            self._end(self._stateless.aclose())
            self._stateless = None

    async def call(self, client: Client, message: Envelope, scope: Scope | None) -> Envelope:
        """Relay a client's request and return the response as it came. Raises RpcError, which names the connection."""
        return await self.attend(lambda leg: leg.call(client, message, scope), client)

    async def attend(self, work: Callable[[Leg | StatelessLeg], Awaitable[Result]], client: Client) -> Result:
        """Do ``work`` in the client's leg as a call in flight: counted, drained, its failure named. Raises RpcError."""
        if self.retirement is not None:
            raise self._unavailable(
                f"the connection is being retired ({self.retirement.reason}); list again", "Draining"
            )
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.in_flight += 1
        self._idle.clear()
        try:
            return await work(self._legs.get(client) or await self._leg(client))
        except ChannelError as error:
            self.suspect()
            raise self._unavailable(str(error), error.reason) from None
        except asyncio.CancelledError:
            if self._abort is None:
                raise
            task.uncancel()
            raise self._abort from None
        finally:
            self._running.discard(task)
            self.in_flight -= 1
            if self.in_flight == 0:
                self._idle.set()

    def unavailable(self) -> RpcError:
        """The error for a name that only this mount could have, while it is not up."""
        return self._unavailable(self._message, self._reason)

    def _unavailable(self, cause: str, reason: str) -> RpcError:
        return RpcError(
            INTERNAL_ERROR,
            f"connection {self.label} is unavailable ({reason}): {cause}",
            {"connection": self.label, "reason": reason},
        )

    def client_listens(self, client: Client) -> None:
        """The client opened its stream for messages outside requests: hear those of the backend."""
        leg = self._legs.get(client)
        if leg is not None:
            leg.listen()

    def notify(self, client: Client, message: bytes) -> None:
        """Pass a notification of the client on, if it has a session of its own here."""
        leg = self._legs.get(client)
        if leg is not None:
            leg.notify(message)

    def forget(self, client: Client) -> None:
        """A client left: its session is ended, in the background."""
        leg = self._legs.pop(client, None)
        if leg is not None:
            self._end(leg.aclose())
        for shared in (self._legs.get(None), self._stateless):
            if shared is not None:
                shared.sever(client)

    def close_session(self, session: UpstreamSession) -> None:
        """End a session in the background; the mount is not Closed before that is done."""
        self._end(session.aclose())

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # the end

    def retire(self, reason: RetireReason, drain_timeout: float) -> None:
        """Take no more calls, let those in flight end within ``drain_timeout`` seconds, then close for real."""
        self.retirement = RetiredMount(
            connection=self.spec.connection,
            fingerprint=self.spec.fingerprint,
            reason=reason,
            retired_at=self._now(),
            in_flight=self.in_flight,
        )
        self._keep_catalogue()
        self._ender = asyncio.create_task(self._drain(drain_timeout), name=f"drain {self.label}")

    async def _drain(self, seconds: float) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
        self._drop_control()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            assert self.retirement is not None
            self._abort = self._unavailable(
                f"the call was cancelled: the connection was retired ({self.retirement.reason}) and the call did not"
                f" end within the drain timeout of {seconds:g} s",
                "Draining",
            )
            log.warning(
                "connection %s: cancelling %d calls still in flight after %g s", self.label, self.in_flight, seconds
            )
            for task in tuple(self._running):
                task.cancel()
            await self._idle.wait()
        self._dismiss_legs()
        while self._closing:
            await asyncio.wait(set(self._closing))
        self._channels.close()
        self.closed.set()
        log.info("connection %s: closed (%s)", self.label, self.retirement.reason if self.retirement else "")

    def retired_report(self) -> RetiredMount:
        """How far the retirement is. Only for a retired mount."""
        assert self.retirement is not None
        state: Literal["Draining", "Closed"] = "Closed" if self.closed.is_set() else "Draining"
        return self.retirement.model_copy(update={"in_flight": self.in_flight, "state": state})


class _ControlEvents:
    """What the control session's backend says concerns the mount alone."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        error = RpcError(
            jsonrpc.METHOD_NOT_FOUND, f"{method}: this session is for discovery, no client stands behind it"
        )
        session.respond(message["id"], "error", error.body())

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        if method.endswith("/list_changed"):
            self._mount.list_changed()

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        self._mount.suspect()
