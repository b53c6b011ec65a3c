"""Keeps the access token of one mount: fetched once for all its sessions, renewed before it expires or when refused.

What can go wrong is a crowd. However many requests find no token, one fetch serves them all; after a fetch that failed,
and for a new token that the backend refuses all the same, the token endpoint is left alone for a while.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mcp_connections.proxy.channels.channel import ChannelError, unsent
from mcp_connections.proxy.channels.client_credentials import AccessToken
from mcp_connections.proxy.channels.redaction import Redactor

EARLY_SECONDS: Final = 30.0
EARLY_SHARE: Final = 0.1
"""A token is renewed so long before it expires, or so much of its life where that is less."""
FIRST_PAUSE: Final = 0.35
LONGEST_PAUSE: Final = 5.0
"""Less than a control session waits, so that its own attempts always count."""
RENEWAL_PAUSE: Final = 5.0
"""A backend that refuses every token has another fetched no more often than this."""

Answer = TypeVar("Answer")


class _Held:
    """A token in use."""

    __slots__ = ("accepted", "expires_at", "renew_at", "text")

    def __init__(self, token: AccessToken, since: float) -> None:
        """``since``: loop time from which its life counts. One without an end is used until it is refused."""
        life = math.inf if token.lifetime is None else token.lifetime
        self.text = token.text
        self.expires_at = since + life
        self.renew_at = self.expires_at - min(EARLY_SECONDS, life * EARLY_SHARE)
        self.accepted = False
        """The backend has taken it at least once."""


class TokenKeeper:
    """The one token of a mount."""

    def __init__(self, fetch: Callable[[], Awaitable[AccessToken]], redactor: Redactor) -> None:
        """``redactor`` is told of each token: a backend may quote what it was given."""
        self.redactor = redactor
        self._fetch = fetch
        self._now = asyncio.get_running_loop().time
        self._held: _Held | None = None
        self._fetching: asyncio.Task[str] | None = None
        self._failure: ChannelError | None = None
        self._failures = 0
        self._fetch_again = 0.0
        self._renew_again = 0.0

    async def token(self) -> str:
        """A token that has not expired, fetched if need be. Raises ChannelError, which for a moment after a failed
        fetch is the one of that."""
        held = self._held
        if held is not None and self._now() < held.renew_at:
            return held.text
        try:
            return await self._another()
        except ChannelError as error:
            if held is not None and held is self._held and self._now() < held.expires_at:
                return held.text
            raise unsent(error) from None

    async def _another(self) -> str:
        if self._fetching is None:
            if self._failure is not None and self._now() < self._fetch_again:
                raise self._failure
            self._fetching = asyncio.create_task(self._renew(), name="fetch an access token")
            self._fetching.add_done_callback(self._fetched)
        # Shielded: others may wait for the same token as the caller that is cancelled.
        return await asyncio.shield(self._fetching)

    async def spend(self, send: Callable[[str], Awaitable[Answer]], refused: Callable[[Answer], bool]) -> Answer:
        """What ``send`` returns for a token. Where that is a refusal of the token (HTTP 401, which says that the
        request was not executed), it is sent once more with another one. Raises ChannelError."""
        token = await self.token()
        answer = await send(token)
        if not refused(answer):
            self._accepted(token)
            return answer
        if not self._drop(token):
            return answer
        token = await self.token()
        answer = await send(token)
        if not refused(answer):
            self._accepted(token)
        return answer

    async def _renew(self) -> str:
        began = self._now()
        try:
            token = await self._fetch()
        except ChannelError as error:
            self._failure = error
            self._fetch_again = self._now() + min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), LONGEST_PAUSE)
            self._failures += 1
            raise
        self._failure, self._failures = None, 0
        self.redactor.learn(token.text)
        self._held = _Held(token, began)
        return token.text

    def _fetched(self, task: asyncio.Task[str]) -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # every waiter may have gone

    def _accepted(self, token: str) -> None:
        if self._held is not None and self._held.text == token:
            self._held.accepted = True

    def _drop(self, token: str) -> bool:
        """The backend refuses ``token``. Whether there is, or may be had, another one."""
        held = self._held
        if held is None or held.text != token:
            return True  # another request has seen to it
        if not held.accepted and self._now() < self._renew_again:
            return False
        self._held = None
        self._renew_again = self._now() + RENEWAL_PAUSE
        return True

    def close(self) -> None:
        """Forget everything; a fetch under way is cancelled."""
        self._held = None
        if self._fetching is not None:
            self._fetching.cancel()
