"""A client's subscriptions, which outlive the mounts that serve them.

A client holds a subscription by the URI it knows. When the mount behind it is replaced or removed, or its backend
becomes one of the other era, the URI is looked up as if the client had just asked for it, and subscribed to at whatever
serves it now. What happened in between nobody saw, so the client is told that the resource may have changed; where
there is nobody to subscribe to any more, that its subscription has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from msgspec import Raw

from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.leg import Leg
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.registry.stateless_leg import StatelessLeg
from mcp_connections.proxy.registry.subscriptions import updated
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, Envelope, RpcError

log = logging.getLogger(__name__)

MAX_HELD: Final = 1000
"""Subscriptions of one client."""
ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 0.5
"""After the first attempt; doubled after each further one."""


class Held(NamedTuple):
    """Who serves a subscription: the mount, in which leg, and by which URI of its own."""

    mount: Mount
    leg: Leg | StatelessLeg
    own: str

    @property
    def adrift(self) -> bool:
        """Whether it serves it no more."""
        return self.mount.retirement is not None or self.leg.closed


class HeldSubscriptions:
    """The subscriptions of ``subscriber``, made in the session of ``caller``."""

    def __init__(
        self, registry: Registry, subscriber: Client, caller: Client, tell_end: Callable[[str, str], None]
    ) -> None:
        """``tell_end`` tells the client that a subscription has ended, and why."""
        self._tell_end = tell_end
        self._registry = registry
        self._subscriber = subscriber
        self._caller = caller
        self._held: dict[str, Held] = {}
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._changes = 0

    async def subscribe(self, uri: str, mount: Mount, own: str, message: Envelope | None = None) -> Envelope:
        """Subscribe to the public ``uri``, which is the mount's ``own``; ``message`` is the client's request for that.
        Raises RpcError."""
        if len(self._held) >= MAX_HELD and uri not in self._held:
            raise RpcError(INVALID_PARAMS, f"a client may hold {MAX_HELD} subscriptions; give some of them up first")
        answer, held = await self._subscribe_at(mount, own, message)
        if "error" not in answer:
            self._held[uri] = held
            self._registry.follow(self._look)
            if held.adrift:
                self._look()
        return answer

    async def _subscribe_at(self, mount: Mount, own: str, message: Envelope | None) -> tuple[Envelope, Held]:
        request = message or _request("resources/subscribe", own)

        async def work(leg: Leg | StatelessLeg) -> tuple[Envelope, Held]:
            return await leg.subscribe(self._subscriber, own, request), Held(mount, leg, own)

        return await mount.attend(work, self._caller, message)

    def __contains__(self, uri: str) -> bool:
        return uri in self._held

    def drop(self, uri: str) -> bool:
        """Forget a subscription; whether there is nobody who has to be told."""
        held = self._held.pop(uri, None)
        if not self._held:
            self._registry.unfollow(self._look)
        return held is not None and held.adrift

    # moving

    def _look(self) -> None:
        """The mounts, or what they serve, have changed."""
        self._changes += 1
        self._move_those_adrift()

    def _move_those_adrift(self) -> None:
        for uri, held in self._held.items():
            if held.adrift and uri not in self._moving:
                task = asyncio.create_task(self._move(uri, held), name="move a subscription")
                self._moving[uri] = task
                task.add_done_callback(partial(self._moved, uri, self._changes))

    def _moved(self, uri: str, changes: int, task: asyncio.Task[None]) -> None:
        del self._moving[uri]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("a subscription could not be moved", exc_info=error)
        elif changes != self._changes:
            self._move_those_adrift()

    async def _move(self, uri: str, old: Held) -> None:
        target = self._registry.view(self._subscriber.principal, self._subscriber.era).locate(uri)
        mount = target.owner if target is not None else self._successor(old.mount)
        if mount is None:
            self._end(uri, old, f"connection {old.mount.label} is no longer there")
        elif not mount.ready:
            return  # when it is, the registry will say so
        elif target is None:
            self._end(uri, old, f"connection {mount.label} was changed and does not have the resource under this URI")
        elif not mount.offers_subscriptions(self._subscriber.era):
            self._end(uri, old, f"connection {mount.label} was changed and does not offer resource subscriptions")
        else:
            async with mount.restorer.turns:
                cause = await self._take_up(uri, old, mount, target.own)
            if cause is not None:
                self._end(uri, old, cause)

    def _successor(self, mount: Mount) -> Mount | None:
        """The mount of the same connection, if the client may use it."""
        successor = self._registry.find(mount.spec.connection)
        return successor if successor in self._registry.mounts_for(self._subscriber.principal) else None

    async def _take_up(self, uri: str, old: Held, mount: Mount, own: str) -> str | None:
        """Subscribe anew; why that cannot be done, if it cannot."""
        cause = ""
        for attempt in range(ATTEMPTS):
            try:
                answer, held = await self._subscribe_at(mount, own, None)
            except RpcError as error:
                cause = str(error)
            else:
                if "error" in answer:
                    refusal = held.leg.quote(bytes(answer["error"]))
                    return f"connection {mount.label} was changed and refused the subscription: {refusal}"
                await self._took_up(uri, old, held)
                return None
            await asyncio.sleep(PAUSE_SECONDS * 2**attempt)
            if mount.retirement is not None or not mount.ready:
                return None  # the next one, or the next time
        return cause

    async def _took_up(self, uri: str, old: Held, held: Held) -> None:
        current = self._held.get(uri)
        if current is old:
            self._held[uri] = held
            self._subscriber.deliver(updated(uri))
        elif current is None:
            await _unsubscribe(self._subscriber, self._caller, held)  # the client did so meanwhile

    def _end(self, uri: str, old: Held, cause: str) -> None:
        if self._held.get(uri) is old:
            self.end(uri, cause)

    def end(self, uri: str, cause: str) -> None:
        """Updates come no more: tell the client, if it still wants them."""
        if uri in self._held:
            log.info("a client's subscription has ended: %s", cause)
            self.drop(uri)
            self._tell_end(uri, cause)

    # the end

    def forget(self) -> None:
        """The client leaves, and its sessions with the backends end with it."""
        self._held.clear()
        self._registry.unfollow(self._look)
        for task in self._moving.values():
            task.cancel()

    async def release(self) -> None:
        """The client leaves, but not its session: unsubscribe."""
        held, moving = tuple(self._held.values()), tuple(self._moving.values())
        self.forget()
        if moving:
            await asyncio.wait(moving)
        for each in held:
            await _unsubscribe(self._subscriber, self._caller, each)


async def _unsubscribe(subscriber: Client, caller: Client, held: Held) -> None:
    if held.adrift:
        return
    message = _request("resources/unsubscribe", held.own)
    try:
        await held.mount.attend(lambda leg: leg.unsubscribe(subscriber, held.own, message), caller)
    except RpcError as error:
        log.debug("unsubscribing: %s", error)


def _request(method: str, uri: str) -> Envelope:
    params = Raw(b'{"uri":%s}' % jsonrpc.encode(uri))
    return {"jsonrpc": jsonrpc.VERSION, "method": Raw(jsonrpc.encode(method)), "params": params}
