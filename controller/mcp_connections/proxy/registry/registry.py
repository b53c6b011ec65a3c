"""The mount table: the only place that mounts, replaces and retires.

``apply`` compares what is desired with what is mounted, prepares the new mounts beside the old ones, swaps the table
in one step and retires what is out of it. Unchanged mounts stay the same objects: their sessions, catalogue and calls
in flight never notice a reload.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from mcp_connections.mounts.plan import Add, Keep, Plan, Replace, Retire, plan
from mcp_connections.mounts.report import (
    CatalogNote,
    RegistryReport,
    ReloadResult,
    RetiredMount,
    SkippedMount,
)
from mcp_connections.mounts.spec import Access, ClientLimits, ConnectionKey, DesiredMounts, MountSpec, RateLimit
from mcp_connections.proxy.access.client_access import Principal, may_use
from mcp_connections.proxy.catalogue.catalogue import Aggregate
from mcp_connections.proxy.channels.connecting import ChannelFactory, Transport
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.turns import TurnsByOrigin
from mcp_connections.proxy.wire.eras import ERAS, Era

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 1.5
"""How long a reload waits for the first attempts of new mounts, so that clients see one change, not two."""
READY_SECONDS: Final = 10.0
"""After this long the proxy is ready, whatever its backends do."""
ANNOUNCE_SECONDS: Final = 0.02
"""How long changes are collected into one list_changed."""
RETIRED_KEPT: Final = 20
MAX_VIEWS: Final = 64
"""Catalogues kept for clients that may see a part of the connections only."""

Listener = Callable[[set[str]], None]
"""Told which of the lists (tools, resources, prompts) changed."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """The mounts of one proxy process."""

    def __init__(
        self,
        *,
        channels: Callable[[MountSpec], ChannelFactory] = Transport,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.instance = secrets.token_hex(8)
        self.on_reload: Callable[[ReloadResult], None] = lambda result: None
        self._channels = channels
        self._now = now
        self._turns = TurnsByOrigin()
        self._desired = DesiredMounts()
        self._mounts: dict[tuple[str, str], Mount] = {}
        self._retired: deque[Mount] = deque()
        self._listeners: list[tuple[Era, Listener]] = []
        self._followers: dict[Callable[[], None], None] = {}
        self._aggregates: dict[Era, Aggregate[Mount]] = dict.fromkeys(ERAS, Aggregate([]))
        self._unannounced: dict[Era, set[str]] = {era: set() for era in ERAS}
        """Lists that have changed since clients were told last, be it for a moment in which somebody saw them."""
        self._restricted = False
        """Whether any mount is not for every client."""
        self._views: dict[tuple[Era, frozenset[tuple[str, str]]], Aggregate[Mount]] = {}
        self._stale = False
        self._announcement: asyncio.TimerHandle | None = None
        self._applying = asyncio.Lock()
        self._applied = False
        self._ready_at: float | None = None
        self._discarded: list[Mount] = []
        """Mounts of reloads that were cancelled before these came into service."""

    # what is mounted

    @property
    def separator(self) -> str:
        """Between prefix and name."""
        return self._desired.separator

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The mounts in service, oldest resource first."""
        return tuple(self._mounts.values())

    def find(self, connection: ConnectionKey) -> Mount | None:
        """The mount in service of a connection."""
        return self._mounts.get((connection.namespace, connection.name))

    @property
    def aggregate(self) -> Aggregate[Mount]:
        """The public catalogue of clients that shake hands, up to date."""
        return self._current()["handshake"]

    def _current(self) -> dict[Era, Aggregate[Mount]]:
        if self._stale:
            self._stale = False
            self._views.clear()
            mounts = self._mounts.values()
            before = self._aggregates
            common = _aggregate(mounts, "handshake")
            differ = any(mount.public_for("stateless") is not mount.public for mount in mounts)
            self._aggregates = {
                "handshake": common,
                "stateless": _aggregate(mounts, "stateless") if differ else common,
            }
            for era in ERAS:
                self._unannounced[era] |= self._aggregates[era].changes_from(before[era])
        return self._aggregates

    @property
    def access(self) -> Access:
        """How clients are to be authenticated."""
        return self._desired.access

    @property
    def audits_calls(self) -> bool:
        """Whether a line is logged for each relayed request."""
        return self._desired.audit_calls

    @property
    def client_rate_limit(self) -> RateLimit | None:
        """How many requests each client may make."""
        return self._desired.client_rate_limit

    @property
    def client_limits(self) -> ClientLimits:
        """What is taken from clients at most."""
        return self._desired.client_limits

    def mounts_for(self, principal: Principal) -> tuple[Mount, ...]:
        """The mounts that a client may know of."""
        return tuple(mount for mount in self._mounts.values() if may_use(mount.spec.allow, principal))

    def view(self, principal: Principal, era: Era) -> Aggregate[Mount]:
        """The public catalogue of an era as far as a client may see it: what it may not see is not there for it."""
        whole = self._current()[era]
        if not self._restricted:
            return whole
        visible = self.mounts_for(principal)
        if len(visible) == len(self._mounts):
            return whole
        names = ((mount.spec.connection.namespace, mount.spec.connection.name) for mount in visible)
        key = (era, frozenset(names))
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_VIEWS:
                self._views.clear()
            view = self._views[key] = _aggregate(visible, era)
        return view

    def listen(self, era: Era, listener: Listener) -> None:
        """Have ``listener`` called after every change of the public catalogue of an era."""
        self._listeners.append((era, listener))

    def unlisten(self, era: Era, listener: Listener) -> None:
        """The opposite of ``listen``."""
        if (era, listener) in self._listeners:
            self._listeners.remove((era, listener))

    def follow(self, follower: Callable[[], None]) -> None:
        """Have ``follower`` called after every change of the mounts or of their state; once, however often it asks."""
        self._followers[follower] = None

    def unfollow(self, follower: Callable[[], None]) -> None:
        """The opposite of ``follow``."""
        self._followers.pop(follower, None)

    async def first_attempts(self, seconds: float) -> None:
        """Return once every mount's first attempt has ended or is ``seconds`` old: one backend that hangs costs its
        first clients a moment, not every request a wait of its own."""
        now = asyncio.get_running_loop().time()
        waiting = [
            mount
            for mount in self._mounts.values()
            if not mount.attempted.is_set() and mount.started_at + seconds > now
        ]
        if waiting:
            patience = max(mount.started_at for mount in waiting) + seconds - now
            await _all_set((mount.attempted for mount in waiting), patience)

    async def second_eras(self, seconds: float) -> None:
        """Return once it is known of every backend what it offers stateless clients, or has been asked of it for
        ``seconds``."""
        await self.first_attempts(seconds)
        asked = [second for mount in self._mounts.values() if (second := mount.ask_for_second_era()) is not None]
        now = asyncio.get_running_loop().time()
        waiting = [second for second in asked if second.asked_at + seconds > now]
        if waiting:
            patience = max(second.asked_at for second in waiting) + seconds - now
            await _all_set((second.settled for second in waiting), patience)

    @property
    def ready(self) -> bool:
        """Whether clients should be sent here: every mount was tried once, or 10 s have passed. With
        ``startPolicy: Strict`` every mount has to be up."""
        if not self._applied:
            return False
        if self._desired.start_policy == "Strict":
            return not self._desired.rejected and all(mount.ready for mount in self._mounts.values())
        if all(mount.attempted.is_set() for mount in self._mounts.values()):
            return True
        return self._ready_at is not None and asyncio.get_running_loop().time() >= self._ready_at

    def report(self) -> RegistryReport:
        """Everything an operator may want to know."""
        clashes: dict[int, list[CatalogNote]] = {}
        for loser, note, holder in self.aggregate.clashes:
            reason = f"connection {holder.label} has the public name already and is older; change one of the prefixes"
            clashes.setdefault(id(loser), []).append(note.model_copy(update={"reason": reason}))
        return RegistryReport(
            instance=self.instance,
            ready=self.ready,
            separator=self.separator,
            mounts=tuple(mount.report(tuple(clashes.get(id(mount), ())[:100])) for mount in self._mounts.values()),
            retired=self._retired_reports(),
            rejected=self._desired.rejected,
            disabled=self._desired.disabled,
        )

    def _retired_reports(self) -> tuple[RetiredMount, ...]:
        """The last 20 retired mounts, and older ones as long as they drain."""
        reports = [mount.retired_report() for mount in self._retired]
        older = [report for report in reports[:-RETIRED_KEPT] if report.state == "Draining"]
        return (*older, *reports[-RETIRED_KEPT:])

    # changing it

    async def apply(self, desired: DesiredMounts) -> ReloadResult:
        """Make ``desired`` what is mounted. Reloads run one after the other; the last one wins.

        Returns once the table is swapped and the new mounts were tried, or after 1.5 s: a mount that is not up
        by then goes on trying. A failing mount never keeps another from being served.
        """
        async with self._applying:
            result = await self._apply(desired)
        self.on_reload(result)
        return result

    async def _apply(self, desired: DesiredMounts) -> ReloadResult:
        steps = plan(desired, self.report())
        specs = [step.spec for step in steps.of(Add)] + [step.spec for step in steps.of(Replace)]
        fresh = {
            (spec.connection.namespace, spec.connection.name): self._make(spec, desired.separator) for spec in specs
        }
        now = asyncio.get_running_loop().time()
        if not self._applied:
            self._ready_at = now + READY_SECONDS
        elif self.ready:
            self._ready_at = now  # a mount that is added is no reason to send clients away
        serving = bool(self._mounts)
        for mount in fresh.values():
            mount.start()
        if serving and fresh:
            # The old mounts go on serving meanwhile, so that clients never see a gap.
            try:
                await _all_set((mount.attempted for mount in fresh.values()), SETTLE_SECONDS)
            except BaseException:
                self._discard(fresh.values())
                raise
        retired = self._swap(desired, steps, fresh)
        if not serving:
            await _all_set((mount.attempted for mount in fresh.values()), SETTLE_SECONDS)
        return ReloadResult(
            kept=tuple(step.connection for step in steps.of(Keep)),
            added=tuple(step.connection for step in steps.of(Add)),
            replaced=tuple(step.connection for step in steps.of(Replace)),
            retired=retired,
            rejected=desired.rejected,
            skipped=_skipped(fresh.values()),
        )

    def _make(self, spec: MountSpec, separator: str) -> Mount:
        return Mount(
            spec,
            separator=separator,
            channels=self._channels(spec),
            turns=self._turns.at(spec.server),
            on_change=self._changed,
            now=self._now,
        )

    def _swap(
        self, desired: DesiredMounts, steps: Plan, fresh: dict[tuple[str, str], Mount]
    ) -> tuple[RetiredMount, ...]:
        """The table changes here, between two steps of the event loop, and nowhere else."""
        before = self._mounts
        renamed = desired.separator != self._desired.separator
        self._desired = desired
        self._applied = True
        self._mounts = {}
        for spec in desired.mounts:
            place = (spec.connection.namespace, spec.connection.name)
            mount = fresh.get(place) or before[place]
            if renamed:
                mount.rename(desired.separator)
            self._mounts[place] = mount
        self._restricted = any(spec.allow for spec in desired.mounts)
        causes = [(step.connection, step.cause) for step in steps.of(Replace)]
        causes += [(step.connection, step.cause) for step in steps.of(Retire)]
        leaving = [(before[connection.namespace, connection.name], cause) for connection, cause in causes]
        for mount, cause in leaving:
            log.info("connection %s: retiring (%s)", mount.label, cause)
            if cause == "Changed" and (successor := self.find(mount.spec.connection)) is not None:
                successor.succeed(mount)
            mount.retire(cause, desired.drain_timeout)
            self._retired.append(mount)
        while len(self._retired) > RETIRED_KEPT and self._retired[0].closed.is_set():
            self._retired.popleft()
        self._changed()
        return tuple(mount.retired_report() for mount, _ in leaving)

    def _discard(self, mounts: Iterable[Mount]) -> None:
        self._discarded = [mount for mount in self._discarded if not mount.closed.is_set()]
        for mount in mounts:
            mount.retire("Removed", 0.0)
            self._discarded.append(mount)

    def _changed(self) -> None:
        self._stale = True
        if self._announcement is None:
            self._announcement = asyncio.get_running_loop().call_later(ANNOUNCE_SECONDS, self._announce)

    def _announce(self) -> None:
        self._announcement = None
        self._current()
        changes, self._unannounced = self._unannounced, {era: set() for era in ERAS}
        for era, listener in tuple(self._listeners):
            if changes[era]:
                listener(changes[era])
        for follower in tuple(self._followers):
            follower()

    async def aclose(self, cause: str = "") -> None:
        """Retire everything at once and return once all of it is closed. ``cause`` is what calls in flight are told."""
        async with self._applying:
            for mount in self._mounts.values():
                mount.retire("Removed", 0.0, cause)
                self._retired.append(mount)
            self._mounts = {}
            if self._announcement is not None:
                self._announcement.cancel()
            for mount in (*self._retired, *self._discarded):
                await mount.closed.wait()


def _skipped(mounts: Iterable[Mount]) -> tuple[SkippedMount, ...]:
    return tuple(
        SkippedMount(connection=mount.spec.connection, phase=mount.failed_phase, error=mount.report().message)
        for mount in mounts
        if mount.attempted.is_set() and not mount.ready and mount.failed_phase is not None
    )


def _aggregate(mounts: Iterable[Mount], era: Era) -> Aggregate[Mount]:
    contributions = ((mount, mount.public_for(era)) for mount in mounts)
    return Aggregate([(mount, mount.spec.prefix, public) for mount, public in contributions if public is not None])


async def _all_set(events: Iterable[asyncio.Event], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()
