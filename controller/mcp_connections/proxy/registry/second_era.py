"""The stateless era of a backend whose control session shakes hands: what it offers there may be something else.

Nothing is asked before somebody needs to know, and then once per control session: for most backends the answer is a
refusal (2026-07-28, basic/versioning, "Dual-era").
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from mcp_connections.mounts.spec import MountSpec
from mcp_connections.proxy.catalogue.catalogue import PublicCatalogue, publish
from mcp_connections.proxy.catalogue.pinning import Pin
from mcp_connections.proxy.catalogue.reread_pace import RereadPace
from mcp_connections.proxy.catalogue.selecting import SelectedCatalogue, read_selected
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.registry.stateless_leg import StatelessLeg
from mcp_connections.proxy.upstream.stateless import StatelessSession

log = logging.getLogger(__name__)

DISCOVERY_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Offer:
    """What a backend has for clients of one era."""

    own: SelectedCatalogue
    public: PublicCatalogue
    capabilities: dict[str, object]
    instructions: str | None


class SecondEra:
    """Whether a mount's backend also serves the stateless era, and with what."""

    def __init__(
        self, spec: MountSpec, *, separator: str, leg: Callable[[], StatelessLeg], on_change: Callable[[], None]
    ) -> None:
        self.offer: Offer | None = None
        """None where the backend does not serve the era, as long as that is not known, and where what it offers is not
        the pinned catalogue: stateless clients then see the one that is."""
        self.asked_at = 0.0
        """Loop time."""
        self.settled = asyncio.Event()
        """Set while there is nothing to wait for."""
        self.settled.set()
        self._spec = spec
        self._pin = Pin(spec.catalog.pin)
        self._separator = separator
        self._leg = leg
        self._on_change = on_change
        self._generation = 0
        self._found: asyncio.Future[bool] | None = None
        self._finding: asyncio.Task[None] | None = None
        self._rereading: asyncio.Task[None] | None = None
        self._stale = False
        self._pace = RereadPace()
        self._sessions: weakref.WeakSet[StatelessSession] = weakref.WeakSet()

    def ask(self, generation: int) -> asyncio.Future[bool]:
        """Find out, unless that was begun in this control session already: whether the backend serves the era, and
        after that with what."""
        if self._found is None or self._generation != generation:
            self._give_up()
            loop = asyncio.get_running_loop()
            self._generation = generation
            self.asked_at = loop.time()
            self.settled.clear()
            self._found = loop.create_future()
            self._finding = self._start(self._find(self._found), "find the stateless era")
        return self._found

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=f"{what}: {self._spec.connection}")

    async def serves(self, generation: int) -> bool:
        """Whether the backend serves the era."""
        return await asyncio.shield(self.ask(generation))

    async def _find(self, found: asyncio.Future[bool]) -> None:
        offer: Offer | None = None
        try:
            session = await self._leg().session()
            found.set_result(True)
            offer = await self._read(session)
            self._leg().follow_lists()
        except ChannelError as error:
            # Whatever it is, the handshake works; what is wrong with the backend is for the control session to say.
            log.debug("connection %s: the stateless era: %s", self._spec.connection, error)
        if not found.done():
            found.set_result(False)
        self._adopt(offer)
        self.settled.set()

    def _give_up(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
        if self._found is not None and not self._found.done():
            self._found.set_result(False)
        self.settled.set()

    async def _read(self, session: StatelessSession) -> Offer | None:
        before = None if self.offer is None else self.offer.own
        own = await read_selected(session, self._spec, DISCOVERY_SECONDS, before)
        for each in self._sessions:
            each.arguments_in_headers = own.arguments_in_headers
        if not self._pin.approves(own):
            log.warning(
                "connection %s: what the backend has for stateless clients has the hash %s, and spec.catalog.pin"
                " approves another; they see the pinned catalogue",
                self._spec.connection,
                own.hash,
            )
            return None
        return Offer(own, self._publish(own), session.capabilities, session.instructions)

    def _publish(self, own: SelectedCatalogue) -> PublicCatalogue:
        return publish(own, self._spec.prefix, self._separator, self._spec.tools.rename)

    def _adopt(self, offer: Offer | None) -> None:
        before, self.offer = self.offer, offer
        if (before and before.own) is not (offer and offer.own):
            self._on_change()

    def changed(self) -> None:
        """The backend's lists may have changed."""
        if self.offer is None:
            return
        self._stale = True
        if self._rereading is None or self._rereading.done():
            self._rereading = self._start(self._reread(), "read the lists again")

    async def _reread(self) -> None:
        loop = asyncio.get_running_loop()
        while self._stale:
            await asyncio.sleep(self._pace.pause(loop.time()))
            self._stale = False
            try:
                self._adopt(await self._read(await self._leg().session()))
            except ChannelError as error:
                log.warning("connection %s: the lists could not be read again: %s", self._spec.connection, error)
            self._pace.read(loop.time())

    def keep_informed(self, session: StatelessSession) -> None:
        """Have a session know which arguments of which tools go into headers."""
        self._sessions.add(session)
        if self.offer is not None:
            session.arguments_in_headers = self.offer.own.arguments_in_headers

    def rename(self, separator: str) -> None:
        """Publish under another separator."""
        self._separator = separator
        if (offer := self.offer) is not None:
            self.offer = Offer(offer.own, self._publish(offer.own), offer.capabilities, offer.instructions)

    def forget(self) -> None:
        """The control session is of this era itself now, or the mount ends."""
        self._give_up()
        if self._rereading is not None:
            self._rereading.cancel()
        self._found = None
        self._adopt(None)
