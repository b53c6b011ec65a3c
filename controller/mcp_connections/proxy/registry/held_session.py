"""At most one open upstream session, which many may want at once and any of them may stop waiting for.

It is opened on first use, by one task that outlives the callers, and opened again after it was lost.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from mcp_connections.proxy.channels.channel import ChannelError, Unreachable, unsent
from mcp_connections.proxy.registry.subscriptions import Subscriptions
from mcp_connections.proxy.upstream.session import UpstreamSession

if TYPE_CHECKING:
    from mcp_connections.proxy.registry.mount import Mount

S = TypeVar("S", bound=UpstreamSession)


class HeldSession(ABC, Generic[S]):
    """The session with ``mount``, and the subscriptions that are kept in it."""

    held: str
    """What is over once this is closed, for the error that says so."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._session: S | None = None
        self._opening: asyncio.Task[S] | None = None
        self._closed = False
        self._subscriptions = Subscriptions(mount.spec.prefix)

    @property
    def active(self) -> bool:
        """Whether an upstream session is open."""
        return self._session is not None and self._session.fault is None

    @property
    def closed(self) -> bool:
        """Whether this is of no more use."""
        return self._closed

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for what the backend says through it, and no session is there to hear it."""
        return bool(self._subscriptions.uris) and not self.active and self._opening is None and not self._closed

    def quote(self, said: bytes) -> str:
        """What the backend said, for a text; without secrets."""
        return self._session.quote(said) if self._session is not None else "(no longer known)"

    async def session(self) -> S:
        """The open session, opening one if need be. Raises ChannelError; HandshakeRefused where the backend is of the
        other era."""
        current = self._session
        if current is not None and current.fault is None:
            return current
        if self._opening is None:
            if self._closed:
                raise self._over()
            if current is not None:
                self._forget(current)
            self._opening = asyncio.create_task(self._open(), name=f"open {self._mount.label}")
            self._opening.add_done_callback(self._opened)
        # Shielded: others may wait for the same session as the caller that is cancelled.
        try:
            return await asyncio.shield(self._opening)
        except ChannelError as error:
            raise unsent(error) from None

    async def _open(self) -> S:
        session = await self._connect()
        if self._closed:
            await session.aclose()
            raise self._over()
        self._session = session
        try:
            await self._resume(session)
        except BaseException:
            self._forget(session)  # else it would serve without what clients had asked for
            raise
        return session

    @abstractmethod
    async def _connect(self) -> S:
        """A new session with the backend. Raises ChannelError."""

    @abstractmethod
    async def _resume(self, session: S) -> None:
        """Have in a new session what clients had in the one before. Raises ChannelError."""

    def _opened(self, task: asyncio.Task[S]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # every waiter may have gone; the next call tries again and sees it

    def _over(self) -> ChannelError:
        return Unreachable(f"the {self.held} is closed", executed=False)

    def _forget(self, session: UpstreamSession) -> None:
        if self._session is session:
            self._session = None
            self._mount.close_session(session)

    async def aclose(self) -> None:
        """End the session and what is awaited of it."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._session is not None:
            session, self._session = self._session, None
            await session.aclose()
