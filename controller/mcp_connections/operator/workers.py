"""One worker for each proxy: waits for a mark or for the time to look, passes, and tries again what failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from mcp_connections.operator.cluster import ClusterError
from mcp_connections.operator.reconcile import Outcome
from mcp_connections.operator.trigger import ProxyKey, Trigger

log = logging.getLogger(__name__)

RESYNC = 25.0
"""Seconds between full passes over everything. Heals whatever an event was missed for, and what somebody changed by
hand, within half a minute."""
RETRY_FIRST = 1.0
RETRY_LONGEST = 60.0
PASS_TIMEOUT = 180.0
"""Seconds that one pass may take. Every request in it has a shorter limit of its own."""
STUCK_AFTER = 3 * PASS_TIMEOUT
"""Seconds without any sign of life of a worker in a pass after which the process had better be started again."""
PARALLEL = 8
"""Passes at once."""


class Reconciler(Protocol):
    """What a worker drives."""

    async def full_pass(self) -> Outcome:
        """Read everything and bring it about. Raises ClusterError."""

    async def look(self) -> Outcome:
        """Ask the registries again. Raises ClusterError."""


class Workers:
    """Runs the workers of all proxies, and marks everything at the start and at every resync.

    ``keys`` lists the proxies that exist or are referred to. Raises ClusterError.
    """

    def __init__(
        self,
        trigger: Trigger,
        keys: Callable[[], Awaitable[Iterable[ProxyKey]]],
        reconciler: Callable[[ProxyKey], Reconciler],
        *,
        resync: float = RESYNC,
    ) -> None:
        self._trigger = trigger
        self._keys = keys
        self._reconciler = reconciler
        self._resync_after = resync
        self._slots = asyncio.Semaphore(PARALLEL)
        self._since: dict[ProxyKey, float] = {}
        self._listing_since: float | None = None

    async def run(self) -> None:
        """Never returns by itself."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resync(), name="resync")
            while True:
                for key in await self._trigger.arrivals():
                    group.create_task(self._work(key), name=f"proxy {key}")

    @property
    def stuck(self) -> list[str]:
        """What has neither ended nor timed out long after it should have: passes, and the listing that makes up for
        watches that tell nothing. An API server that refuses is no reason: a new process would fare no better."""
        running = {f"McpProxy {key}": since for key, since in self._since.items()}
        if self._listing_since is not None:
            running["the list of all resources"] = self._listing_since
        now = asyncio.get_running_loop().time()
        return [what for what, since in running.items() if now - since > STUCK_AFTER]

    async def _resync(self) -> None:
        retry = RETRY_FIRST
        while True:
            try:
                self._trigger.mark_all(await self._listed())
            except ClusterError as error:
                log.warning("Listing the resources failed, next attempt in %.0f s: %s", retry, error)
                await asyncio.sleep(retry)
                retry = min(retry * 2, self._resync_after)
            else:
                retry = RETRY_FIRST
                await asyncio.sleep(self._resync_after)

    async def _listed(self) -> Iterable[ProxyKey]:
        self._listing_since = asyncio.get_running_loop().time()
        try:
            return await self._keys()
        finally:
            self._listing_since = None

    async def _work(self, key: ProxyKey) -> None:
        flag, reconciler = self._trigger.flag(key), self._reconciler(key)
        due, wait, retry = True, 0.0, RETRY_FIRST
        while True:
            # A pass that failed is due again even without a mark. A mark ends the wait for it.
            if await flag.wait(wait):
                due = True
            if due:
                flag.clear()
            try:
                outcome = await self._pass(key, reconciler.full_pass if due else reconciler.look)
            except (ClusterError, TimeoutError) as error:
                log.warning(
                    "McpProxy %s: next attempt in %.0f s: %s", key, retry, str(error) or "the pass took too long"
                )
            except Exception:
                log.exception("McpProxy %s: the pass failed, next attempt in %.0f s", key, retry)
            else:
                if outcome.is_gone and self._trigger.forget(key):
                    return
                due, wait, retry = False, outcome.wait, RETRY_FIRST
                continue
            due, wait, retry = True, retry, min(retry * 2, RETRY_LONGEST)

    async def _pass(self, key: ProxyKey, run: Callable[[], Awaitable[Outcome]]) -> Outcome:
        async with self._slots:
            self._since[key] = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(PASS_TIMEOUT):
                    return await run()
            finally:
                del self._since[key]
