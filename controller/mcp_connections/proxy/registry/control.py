"""The control session of a mount: discovery, list changes, health, and coming back after an outage.

One supervisor task owns it: it connects, reads the lists, watches (list_changed, pings, refresh interval) and, whatever
fails, tries again with growing pauses. Calls do not wait for it: they run in the clients' own sessions and tell it
what they saw.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

from mcp_connections.api.reasons import Reason
from mcp_connections.mounts.report import Phase, ServerReport
from mcp_connections.mounts.spec import MountSpec
from mcp_connections.proxy.catalogue.catalogue import PublicCatalogue, publish
from mcp_connections.proxy.catalogue.pinning import Pin
from mcp_connections.proxy.catalogue.reread_pace import RereadPace
from mcp_connections.proxy.catalogue.selecting import SelectedCatalogue, read_selected
from mcp_connections.proxy.channels.channel import ChannelError, SessionLost, TimedOut
from mcp_connections.proxy.registry.client import PROXY_HELLO
from mcp_connections.proxy.registry.turns import Turns
from mcp_connections.proxy.upstream.opening import Opener
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession
from mcp_connections.proxy.upstream.stateless import StatelessSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.jsonrpc import Envelope, RpcError

log = logging.getLogger(__name__)

HEALTH_INTERVAL: Final = 15.0
PING_SECONDS: Final = 5.0
CHECK_SECONDS: Final = 15.0
"""What somebody waits who asks whether the backend answers, its turn included."""
DISCOVERY_SECONDS: Final = 30.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
POD_PAUSE: Final = 2.0
POD_ATTEMPTS: Final = 30
"""For so many attempts the pause is no longer than that while nobody answers at a bridge: its pod is starting."""

Notice = Literal["changed", "suspect"]


class Control:
    """What a mount knows of its backend, and the task that keeps it known."""

    def __init__(
        self,
        spec: MountSpec,
        opener: Opener,
        turns: Turns,
        *,
        separator: str,
        on_change: Callable[[], None],
        on_other_era: Callable[[], None],
        on_read: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self.attempted = asyncio.Event()
        """Set once the first attempt to connect has ended, well or badly."""
        self.started_at = 0.0
        """Loop time of the first attempt to connect."""
        self.live = False
        """A session and a catalogue that may be served."""
        self.era: Era | None = None
        """The era of the last session."""
        self.generation = 0
        """Counts the sessions: what was found out in an earlier one may no longer hold."""
        self.reason = "Connecting"
        self.message = "the first attempt to connect has not ended yet"
        self.failed_phase: Phase | None = None
        """Where the last attempt failed; None while live."""
        self.last_handshake: datetime | None = None
        self.last_error: str | None = None
        """The last failure, also of a client's session where it ended the command; kept after recovery."""
        self.last_error_at: datetime | None = None
        """When it was first seen."""
        self.next_retry: datetime | None = None
        self.server: ServerReport | None = None
        self.instructions: str | None = None
        self.capabilities: dict[str, object] = {}
        self.seen: SelectedCatalogue | None = None
        """What the backend has."""
        self.own: SelectedCatalogue | None = None
        """What is served of it, or was last, under the backend's names."""
        self.public: PublicCatalogue | None = None
        self._pin = Pin(spec.catalog.pin)
        self._spec = spec
        self._label = str(spec.connection)
        self._opener = opener
        self._turns = turns
        self._separator = separator
        self._on_change = on_change
        self._on_other_era = on_other_era
        self._on_read = on_read
        self._now = now
        self._session: UpstreamSession | None = None
        self._stateless_sessions: weakref.WeakSet[StatelessSession] = weakref.WeakSet()
        self._notices: set[Notice] = set()
        self._noticed = asyncio.Event()
        self._grace: asyncio.TimerHandle | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._awaited_pod = False
        """The last pause was for a pod that may be starting."""
        self._logged: str | None = None
        """The failure that the log has, which does not repeat it while it lasts."""

    @property
    def sessions(self) -> int:
        """1 while the control session is open."""
        return self._session is not None

    def start(self) -> None:
        """Begin to connect."""
        self.started_at = asyncio.get_running_loop().time()
        self._supervisor = asyncio.create_task(self._supervise(), name=f"mount {self._label}")

    async def stop(self) -> None:
        """End the supervision; the session is ended in the background. What is left is little: retired mounts are
        remembered for a while."""
        self._keep_catalogue()
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            await asyncio.wait({supervisor})
        self._drop_session()
        self.seen = self.own = self.public = None
        self._pin = Pin(self._spec.catalog.pin)

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        established_at = 0.0
        while True:
            again, established_at = math.isinf(established_at), math.inf
            try:
                async with self._turns.to_connect(again=again):
                    await self._establish()
                established_at = loop.time()
                if self._awaited_pod:
                    failures = 0  # a pod took its time to start, which says nothing of what runs in it
                await self._watch()
            except SessionLost as error:
                if error.outage is None and loop.time() - established_at > FIRST_PAUSE:
                    log.info("connection %s: %s; opening another one", self._label, error)
                    continue
                self._failed(error)
            except ChannelError as error:
                self._failed(error)
            except Exception as error:
                # A defect must cost this mount a retry, not its life; the traceback is the report.
                log.exception("connection %s: unexpected failure", self._label)
                self._failed(ChannelError(f"unexpected failure: {error!r}"))
            finally:
                self._drop_session()
            # A backend that comes and goes is given as much rest as one that does not come.
            failures = 1 if loop.time() - established_at > LONGEST_PAUSE else failures + 1
            await self._pause(failures)

    async def _establish(self) -> None:
        self._notices.clear()
        self._noticed.clear()
        self.generation += 1
        session = await self._open()
        self._session = session
        self.failed_phase = "Discover"
        if isinstance(session, StatelessSession):
            self.keep_informed(session)
        await self._refresh(session)
        self.failed_phase = None
        self.server = ServerReport(
            name=str(session.server_info.get("name", "")),
            version=str(session.server_info.get("version", "")),
            protocol_version=session.protocol_version,
        )
        self.capabilities = session.capabilities
        self.last_handshake = self._now()
        self.next_retry = None
        self._keep_catalogue()
        self._settle()
        self._logged = None
        self.attempted.set()
        self._on_change()
        session.listen()

    async def _open(self) -> UpstreamSession:
        """A session of the era that the backend had last, or of the other one if that is refused. The handshake comes
        first: a backend of both eras then gives clients of the older one what they are used to."""
        eras: tuple[Era, ...] = ("stateless", "handshake") if self.era == "stateless" else ("handshake", "stateless")
        session = await self._opener.open(eras, PROXY_HELLO, _ControlEvents(self), self._enter)
        if session.era != self.era:
            self.era = session.era
            self._on_other_era()
        return session

    def _enter(self, phase: Phase) -> None:
        self.failed_phase = phase

    async def _refresh(self, session: UpstreamSession) -> None:
        seen = await read_selected(session, self._spec, DISCOVERY_SECONDS, self.seen)
        if seen is not self.seen:
            self.seen = seen
            for stateless in self._stateless_sessions:
                stateless.arguments_in_headers = seen.arguments_in_headers
            self._serve(self._pin.served(seen))
            self._on_change()
        self._on_read()

    def _serve(self, own: SelectedCatalogue | None) -> None:
        if own is not self.own:
            self.own = own
            self.public = None if own is None else self._publish(own)
        self.instructions = None if own is None else own.instructions

    def _publish(self, own: SelectedCatalogue) -> PublicCatalogue:
        return publish(own, self._spec.prefix, self._separator, self._spec.tools.rename)

    def _settle(self) -> None:
        """The session is live and the lists are read: say whether what they hold is served."""
        assert self.seen is not None
        before = self.reason
        objection = self._pin.objection(self.seen)
        self.live = objection is None
        if objection is None:
            self.reason, self.message, self.failed_phase = Reason.READY.value, "connected", None
        else:
            self.reason, self.message, self.failed_phase = Reason.CATALOG_CHANGED.value, objection, "Discover"
        if self.reason != before:
            log.log(
                logging.INFO if self.live else logging.WARNING,
                "connection %s: %s",
                self._label,
                "ready" if self.live else objection,
            )
            self._on_change()

    def keep_informed(self, session: StatelessSession) -> None:
        """Have a stateless session know which arguments of which tools go into headers."""
        self._stateless_sessions.add(session)
        if self.seen is not None:
            session.arguments_in_headers = self.seen.arguments_in_headers

    def rename(self, separator: str) -> None:
        """Publish under another separator; sessions and calls go on."""
        self._separator = separator
        if self.own is not None:
            self.public = self._publish(self.own)

    async def _watch(self) -> None:
        """Returns never; raises ChannelError once the session is of no more use."""
        session = self._session
        assert session is not None
        loop = asyncio.get_running_loop()
        refresh_at = loop.time() + self._refresh_pause()
        pace = RereadPace()
        while True:
            try:
                async with asyncio.timeout(max(0.0, min(_spread(HEALTH_INTERVAL), refresh_at - loop.time()))):
                    await self._noticed.wait()
            except TimeoutError:
                self._notices.add("suspect")
            if session.fault is not None:
                raise session.fault
            changed = "changed" in self._notices or loop.time() >= refresh_at
            if changed:
                await asyncio.sleep(pace.pause(loop.time()))
            self._notices.clear()
            self._noticed.clear()
            if not changed:
                await self._probe(session)
                continue
            refresh_at = loop.time() + self._refresh_pause()
            try:
                await self._refresh(session)
            except ChannelError as error:
                log.warning("connection %s: the lists could not be read again: %s", self._label, error)
                await self._probe(session)
            else:
                self._settle()
            pace.read(loop.time())

    def _refresh_pause(self) -> float:
        return _spread(self._spec.catalog.refresh_interval)

    async def _probe(self, session: UpstreamSession) -> None:
        """Ping, and once more before a single lost answer counts as an outage. Raises ChannelError."""
        try:
            await self._ping(session)
        except TimedOut:
            await self._ping(session)

    async def _ping(self, session: UpstreamSession) -> float:
        async with self._turns.to_ping():
            started = time.perf_counter()
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await session.request(session.sign_of_life())  # an error response is a sign of life too
            except TimeoutError:
                raise TimedOut(f"no sign of life within {PING_SECONDS:g} s") from None
            return time.perf_counter() - started

    async def check(self) -> float:
        """Ping the backend now; seconds it took. Raises ChannelError."""
        session = self._session
        if session is None:
            raise ChannelError(self.message)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._ping(session)
        except TimeoutError:
            raise TimedOut(
                f"its turn to be pinged did not come within {CHECK_SECONDS:g} s: others wait for the same server; look"
                " into its log, and check again later"
            ) from None

    def notice(self, notice: Notice) -> None:
        """Something was seen: the lists changed, or a call failed on the way. Look at once."""
        self._notices.add(notice)
        self._noticed.set()

    def remember(self, how: str) -> None:
        """Something failed, here or in a client's session, and whoever asks later is to learn of it."""
        if self.last_error != how:
            self.last_error, self.last_error_at = how, self._now()

    def _failed(self, error: ChannelError) -> None:
        self.live = False
        self.reason = error.reason
        self.message = str(error)
        if self._logged != str(error):
            log.warning("connection %s: %s: %s", self._label, error.reason, error)
        self._logged = str(error)
        self.remember(str(error))
        if self.public is not None and self._grace is None:
            grace = self._spec.catalog.removal_grace
            if grace > 0:
                self._grace = asyncio.get_running_loop().call_later(grace, self._withdraw)
            else:
                self._withdraw()
        self.attempted.set()
        self._on_change()

    def _keep_catalogue(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _withdraw(self) -> None:
        log.warning(
            "connection %s: lost for %g s; its catalogue is withdrawn until it is back",
            self._label,
            self._spec.catalog.removal_grace,
        )
        self._grace = None
        self.seen = None
        self.own = None
        self.public = None
        self._on_change()

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._opener.close(session)

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt: 0.5 s doubled with each failure, 30 s at most. A call that a client
        makes in the meantime cuts the wait short, but not below the shortest."""
        server = self._spec.server
        awaits_pod = server.kind == "http" and server.bridged and self.reason == Reason.UNREACHABLE
        self._awaited_pod = awaits_pod and failures <= POD_ATTEMPTS
        longest = POD_PAUSE if self._awaited_pod else LONGEST_PAUSE
        pause = min(FIRST_PAUSE * 2 ** max(0, min(failures - 1, 10)), longest)
        pause *= random.uniform(0.8, 1.0)  # noqa: S311
        self.next_retry = self._now() + timedelta(seconds=pause)
        shortest = min(pause, FIRST_PAUSE)
        self._noticed.clear()  # the failed session's own last word is no call
        await asyncio.sleep(shortest)
        try:
            async with asyncio.timeout(pause - shortest):
                await self._noticed.wait()
        except TimeoutError:
            pass


def _spread(seconds: float) -> float:
    """A little less: mounts that are made together shall not all come back together."""
    return seconds * random.uniform(0.9, 1.0)  # noqa: S311


class _ControlEvents:
    """What the control session's backend says concerns the mount alone."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def server_request(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        error = RpcError(
            jsonrpc.METHOD_NOT_FOUND, f"{method}: this session is for discovery, no client stands behind it"
        )
        session.respond(message["id"], "error", error.body())

    def notified(self, session: UpstreamSession, method: str, message: Envelope, scope: Scope | None) -> None:
        if method.endswith("/list_changed"):
            self._control.notice("changed")

    def lost(self, session: UpstreamSession, error: ChannelError) -> None:
        self._control.notice("suspect")
