"""A mounted backend: its clients' sessions, the calls in flight, and how it ends.

What is known of the backend, and that it stays known, is its Control's part.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal, TypeVar

from mcp_connections.mounts.report import (
    CatalogNote,
    CatalogReport,
    MountReport,
    Phase,
    PolicyReport,
    RetiredMount,
    RetireReason,
)
from mcp_connections.mounts.spec import MountSpec, RequestPolicy
from mcp_connections.proxy.access.client_access import may_use
from mcp_connections.proxy.catalogue.catalogue import PublicCatalogue
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.channels.connecting import ChannelFactory
from mcp_connections.proxy.policies.policy import RequestPolicies
from mcp_connections.proxy.policies.refusals import SESSIONS, Refusals
from mcp_connections.proxy.policies.retry import is_harmless_twice
from mcp_connections.proxy.registry.client import PROXY_HELLO, Client
from mcp_connections.proxy.registry.control import Control
from mcp_connections.proxy.registry.expiring_leg import ExpiringLeg
from mcp_connections.proxy.registry.leg import Leg
from mcp_connections.proxy.registry.restoring import Restorer
from mcp_connections.proxy.registry.second_era import Offer, SecondEra
from mcp_connections.proxy.registry.stateless_leg import StatelessLeg
from mcp_connections.proxy.registry.turns import Turns
from mcp_connections.proxy.upstream.opening import Opener
from mcp_connections.proxy.upstream.session import Scope, UpstreamEvents, UpstreamSession
from mcp_connections.proxy.upstream.session_slots import NoSlot, SessionSlots
from mcp_connections.proxy.upstream.stateless import StatelessSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, Envelope, RpcError

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Mount:
    """One backend in the table of a registry. Made by the registry only, once per fingerprint."""

    def __init__(
        self,
        spec: MountSpec,
        *,
        separator: str,
        channels: ChannelFactory,
        turns: Turns,
        on_change: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self.spec = spec
        self.label = str(spec.connection)
        self.since = now()
        self.closed = asyncio.Event()
        """Set once nothing of the mount is left: sessions deleted, process groups gone."""
        self.retirement: RetiredMount | None = None
        self.in_flight = 0
        self._now = now
        self._opener = Opener(channels, spec.timeouts)
        self._exits = channels.exits
        self._control = Control(
            spec,
            self._opener,
            turns,
            separator=separator,
            on_change=on_change,
            on_other_era=self._other_era,
            on_read=self._lists_were_read,
            now=now,
        )
        self._exits.on_exit = self._control.remember
        self._second = SecondEra(spec, separator=separator, leg=self._stateless_leg, on_change=on_change)
        self._refusals = Refusals(self.label)
        self._policies = (
            RequestPolicies(spec.policy, spec.timeouts, self._refusals, self.suspect)
            if spec.policy != RequestPolicy()
            else None
        )
        most = spec.session_limits.max_sessions
        self._slots = SessionSlots(most, spec.timeouts.connect) if most is not None else None
        self.restorer = Restorer(self.label, self._all_legs, self._open_for)
        self._legs: dict[Client | None, Leg] = {}
        self._stateless: StatelessLeg | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._abort: RpcError | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._ender: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect."""
        self._control.start()

    # what is known of the backend

    @property
    def ready(self) -> bool:
        """A live control session and a catalogue."""
        return self._control.live and self.retirement is None

    @property
    def attempted(self) -> asyncio.Event:
        """Set once the first attempt to connect has ended, well or badly."""
        return self._control.attempted

    @property
    def started_at(self) -> float:
        """Loop time of the first attempt to connect."""
        return self._control.started_at

    @property
    def public(self) -> PublicCatalogue | None:
        """What the mount contributes to the public catalogue."""
        return self._control.public

    def public_for(self, era: Era) -> PublicCatalogue | None:
        """The same, as clients of an era see it."""
        offer = self._offer_for(era)
        return self._control.public if offer is None or self._control.public is None else offer.public

    def _offer_for(self, era: Era) -> Offer | None:
        """What the backend has for clients of an era, where that is not what the control session found."""
        return self._second.offer if era == "stateless" and self._control.era == "handshake" else None

    @property
    def failed_phase(self) -> Phase | None:
        """Where the last attempt to connect failed."""
        return self._control.failed_phase

    def capabilities(self, era: Era) -> dict[str, object]:
        """What the backend declared to clients of an era."""
        offer = self._offer_for(era)
        return self._control.capabilities if offer is None else offer.capabilities

    def instructions(self, era: Era) -> str | None:
        """What the backend tells models about itself."""
        offer = self._offer_for(era)
        return self._control.instructions if offer is None else offer.instructions

    def offers_subscriptions(self, era: Era) -> bool:
        """Whether clients of an era can be told of updates of its resources."""
        resources = self.capabilities(era).get("resources")
        return isinstance(resources, dict) and resources.get("subscribe") is True

    def schema_with_headers(self, tool: str) -> object | None:
        """The input schema of a tool, by the backend's name, if stateless clients repeat some arguments in headers."""
        offer = self._offer_for("stateless")
        own = self._control.own if offer is None else offer.own
        if own is None or tool not in own.arguments_in_headers:
            return None
        item = next(item for item in own.items["tool"] if item.identity == tool)
        schema: object = jsonrpc.decode_any(item.members["inputSchema"])
        return schema

    def rename(self, separator: str) -> None:
        """Publish under another separator; sessions and calls go on."""
        self._control.rename(separator)
        self._second.rename(separator)

    async def check(self) -> float:
        """Ping the backend now; seconds it took. Raises ChannelError."""
        return await self._control.check()

    def list_changed(self) -> None:
        """The backend says that its lists changed."""
        self._control.notice("changed")

    def stateless_lists_changed(self) -> None:
        """The backend says so to those who are stateless."""
        if self._control.era == "stateless":
            self.list_changed()
        else:
            self._second.changed()

    def suspect(self) -> None:
        """A call failed on the way to the backend, or in it: look at once whether it is still there."""
        self._control.notice("suspect")

    def wake(self) -> None:
        """Try to connect now rather than at the end of the pause."""
        if not self._control.sessions:
            self._control.notice("suspect")

    def report(self, clashes: tuple[CatalogNote, ...] = ()) -> MountReport:
        """The mount as it is now."""
        control = self._control
        return MountReport(
            connection=self.spec.connection,
            fingerprint=self.spec.fingerprint,
            prefix=self.spec.prefix,
            transport=self.spec.server.transport,
            ready=self.ready,
            attempted=control.attempted.is_set(),
            reason=control.reason,
            message=control.message,
            phase=control.failed_phase,
            since=self.since,
            in_flight=self.in_flight,
            sessions=sum(leg.active for leg in self._legs.values()) + control.sessions,
            policy=self._policies.report() if self._policies else PolicyReport(refused=self._refusals.report()),
            server=control.server,
            catalog=self._catalog_report(clashes),
            last_handshake=control.last_handshake,
            last_error=control.last_error,
            last_error_at=control.last_error_at,
            exits=self._exits.count,
            next_retry=control.next_retry,
        )

    def _catalog_report(self, clashes: tuple[CatalogNote, ...]) -> CatalogReport:
        public, seen = self.public, self._control.seen
        seen_hash = "" if seen is None else seen.hash
        if public is None:
            return CatalogReport(hash=seen_hash)
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
            hash=seen_hash,
            names=tuple(served.get("tool", ())[:50]),
            skipped=public.skipped + clashes,
            notices=public.notices,
        )

    # sessions

    async def open_session(self, hello: Hello, events: UpstreamEvents) -> UpstreamSession:
        """A new session of the handshake era, for a client's leg. Raises ChannelError, or RpcError where there are as
        many as there may be."""
        if self._slots is None:
            return await self._opener.open(("handshake",), hello, events)
        try:
            return await self._slots.hold(lambda: self._opener.open(("handshake",), hello, events))
        except NoSlot as full:
            raise self._refusals.refuse(SESSIONS, f"{full}; try again later") from None

    async def open_stateless_session(self, events: UpstreamEvents) -> StatelessSession:
        """A new session of the stateless era. Raises ChannelError; HandshakeRefused where the backend has none."""
        session = await self._opener.open(("stateless",), PROXY_HELLO, events)
        assert isinstance(session, StatelessSession)
        self._control.keep_informed(session)
        self._second.keep_informed(session)
        return session

    def close_session(self, session: UpstreamSession) -> None:
        """End a session in the background; the mount is not Closed before that is done."""
        self._opener.close(session)

    async def _leg(self, client: Client) -> Leg | StatelessLeg:
        """The client's way to this backend: a session of its own, the one that all clients share, or none at all."""
        if await self.is_stateless_for(client):
            return self._stateless_leg()
        key = None if self.spec.session == "Shared" else client
        leg = self._legs.get(key)
        if leg is None:
            timeout = self.spec.session_limits.idle_timeout
            leg = self._legs[key] = Leg(self, key) if timeout is None else ExpiringLeg(self, key, timeout)
        return leg

    async def is_stateless_for(self, client: Client) -> bool:
        """Whether the client's requests are relayed without a session."""
        if self._control.era == "stateless":
            return True
        return client.era == "stateless" and await self._second.serves(self._control.generation)

    def _stateless_leg(self) -> StatelessLeg:
        if self._stateless is None:
            self._stateless = StatelessLeg(self)
        return self._stateless

    def ask_for_second_era(self) -> SecondEra | None:
        """Have it found out what the backend offers stateless clients; None where that is known already.

        A program started for that alone (stdio) would be too much: there it is found out with the first call.
        """
        if self._control.era != "handshake" or not self._control.live or self.spec.server.transport == "stdio":
            return None
        self._second.ask(self._control.generation)
        return None if self._second.settled.is_set() else self._second

    def succeed(self, former: Mount) -> None:
        """Take the place of a mount: clients that listen and had a session there get one here as soon as can be."""
        with_sessions = (client for client, leg in former._legs.items() if client is not None and leg.active)
        self.restorer.expect((*with_sessions, *former.restorer.expected))
        if self._control.live:
            self.restorer.backend_is_there()

    def _all_legs(self) -> list[Leg | StatelessLeg]:
        return [*self._legs.values(), *((self._stateless,) if self._stateless is not None else ())]

    async def _open_for(self, client: Client) -> None:
        if client.listening and may_use(self.spec.allow, client.principal):
            await (await self._leg(client)).session()

    def _lists_were_read(self) -> None:
        self.restorer.backend_is_there()
        if self._second.offer is not None and self._control.era == "handshake":
            self._second.ask(self._control.generation)
            self._second.changed()

    def _other_era(self) -> None:
        self._second.forget()
        self._dismiss_legs()

    def _dismiss_legs(self) -> None:
        """The backend is of another era than before: its old sessions are of no use."""
        for leg in self._legs.values():
            self._opener.end(leg.aclose())
        self._legs.clear()
        if self._stateless is not None:
            self._opener.end(self._stateless.aclose())
            self._stateless = None

    # calls

    async def call(self, client: Client, message: Envelope, scope: Scope | None) -> Envelope:
        """Relay a client's request and return the response as it came. Raises RpcError, which names the connection."""
        return await self.attend(lambda leg: leg.call(client, message, scope), client, message)

    async def attend(
        self,
        work: Callable[[Leg | StatelessLeg], Awaitable[Result]],
        client: Client,
        request: Envelope | None = None,
    ) -> Result:
        """Do ``work`` in the client's leg as a call in flight: counted, drained, its failure named. Raises RpcError.

        The connection's policies apply where it relays a ``request`` of the client.
        """
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
            if self._policies is None or request is None:
                return await work(self._legs.get(client) or await self._leg(client))
            harmless = self._harmless_twice(request, client)
            return await self._policies.run(lambda: self._attempt(work, client), harmless)
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

    async def _attempt(self, work: Callable[[Leg | StatelessLeg], Awaitable[Result]], client: Client) -> Result:
        return await work(self._legs.get(client) or await self._leg(client))

    def _harmless_twice(self, request: Envelope, client: Client) -> Callable[[], bool]:
        """To be asked only once the request has failed."""

        def harmless() -> bool:
            offer = self._offer_for(client.era)
            own = self._control.own if offer is None else offer.own
            return is_harmless_twice(request, own.items.get("tool", ()) if own is not None else ())

        return harmless

    def unavailable(self) -> RpcError:
        """The error for a name that only this mount could have, while it is not up."""
        return self._unavailable(self._control.message, self._control.reason)

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
            self._opener.end(leg.aclose())
        for shared in (self._legs.get(None), self._stateless):
            if shared is not None:
                shared.sever(client)

    # the end

    def retire(self, reason: RetireReason, drain_timeout: float, cause: str = "") -> None:
        """Take no more calls, let those in flight end within ``drain_timeout`` seconds, then close for real. ``cause``
        is what those are told that do not."""
        self.retirement = RetiredMount(
            connection=self.spec.connection,
            fingerprint=self.spec.fingerprint,
            reason=reason,
            retired_at=self._now(),
            in_flight=self.in_flight,
        )
        self.restorer.stop()
        cause = cause or (
            f"the connection was retired ({reason}) and the call did not end within the drain timeout of"
            f" {drain_timeout:g} s"
        )
        self._ender = asyncio.create_task(self._drain(drain_timeout, cause), name=f"drain {self.label}")

    async def _drain(self, seconds: float, cause: str) -> None:
        await self._control.stop()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            self._abort = self._unavailable(f"the call was cancelled: {cause}", "Draining")
            log.warning(
                "connection %s: cancelling %d calls still in flight after %g s", self.label, self.in_flight, seconds
            )
            for task in tuple(self._running):
                task.cancel()
            await self._idle.wait()
        self._other_era()
        await self._opener.aclose()
        self.closed.set()
        log.info("connection %s: closed (%s)", self.label, self.retirement.reason if self.retirement else "")

    def retired_report(self) -> RetiredMount:
        """How far the retirement is. Only for a retired mount."""
        assert self.retirement is not None
        state: Literal["Draining", "Closed"] = "Closed" if self.closed.is_set() else "Draining"
        return self.retirement.model_copy(update={"in_flight": self.in_flight, "state": state})
