"""The stateless era towards a backend: ``server/discover``, complete requests, ``subscriptions/listen``.

There is no session at the backend, so one of these serves all clients of a mount; what keeps them apart is the
``_meta`` of each request (MCP 2026-07-28, basic/versioning).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Raw

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.channels.channel import Channel, ChannelError, HandshakeRefused, TimedOut
from mcp_connections.proxy.upstream.session import Scope, UpstreamEvents, UpstreamSession, object_member
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import HeaderMap, completed, header_lines, is_complete
from mcp_connections.proxy.wire.eras import META_LOG_LEVEL, META_SERVER, META_SUBSCRIPTION, STATELESS_VERSION
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope

log = logging.getLogger(__name__)

FIRST_RETRY: Final = 1.0
LONGEST_RETRY: Final = 30.0


ACKNOWLEDGED_SECONDS: Final = 5.0
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


class Acknowledgement(NamedTuple):
    """What a backend agreed to tell on a ``subscriptions/listen`` stream."""

    refused: frozenset[str]
    """Resources that were asked for and will not be heard of."""
    again: bool
    """The stream takes the place of one that had ended: nobody heard of what happened in between."""


class _Stream(NamedTuple):
    """A ``subscriptions/listen`` under way."""

    request_id: int
    wanted: frozenset[str]
    again: bool


class StatelessSession(UpstreamSession):
    """The shared way to a backend of protocol version 2026-07-28."""

    era = "stateless"

    def __init__(self, channel: Channel, *, hello: Hello, timeouts: Timeouts, events: UpstreamEvents) -> None:
        super().__init__(channel, hello=hello, timeouts=timeouts, events=events)
        self.arguments_in_headers: Mapping[str, HeaderMap] = {}
        """Set once the tools are known."""
        self._wanted: frozenset[str] = frozenset()
        self._listening = False
        self._listener: asyncio.Task[None] | None = None
        self._stream: _Stream | None = None
        self._again = False
        self._settled = asyncio.Event()
        """Set once the backend has said what it agrees to tell."""

    async def begin(self, seconds: float) -> None:
        """``server/discover``, within ``seconds``."""
        self._channel.negotiated(STATELESS_VERSION)
        try:
            async with asyncio.timeout(seconds):
                message = completed(self._discover(), self._hello)
                answer = await self._exchange(self._next_id(), message, None, None)
        except TimeoutError:
            raise TimedOut(f"no answer to server/discover within {seconds:g} s") from None
        result = self._result_object(answer, "server/discover")
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or STATELESS_VERSION not in versions:
            raise HandshakeRefused(f"the backend supports {versions!r}, not {STATELESS_VERSION}", executed=False)
        self.protocol_version = STATELESS_VERSION
        self.capabilities = object_member(result.get("capabilities"))
        stamp = object_member(result.get("_meta")).get(META_SERVER)
        self.server_info = object_member(stamp or result.get("serverInfo"))
        instructions = result.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else None

    def _discover(self) -> Envelope:
        return {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"server/discover"'), "params": Raw(b"{}")}

    def sign_of_life(self) -> Envelope:
        return self._discover()

    async def request(self, message: Envelope, scope: Scope | None = None) -> Envelope:
        if not is_complete(message):
            message = completed(message, self._hello)
        return await super().request(message, scope)

    def _header_lines(self, message: Envelope) -> bytes:
        return header_lines(message, self.arguments_in_headers)

    def _can_concern(self, request: Envelope, message: Envelope) -> bool:
        if META_SUBSCRIPTION.encode() in bytes(message.get("params", jsonrpc.NULL)):
            return False  # of a subscription of ours
        # Only requests that ask for log messages get any (server/utilities/logging).
        is_log = jsonrpc.method_of(message) == "notifications/message"
        return not is_log or META_LOG_LEVEL.encode() in bytes(request.get("params", jsonrpc.NULL))

    def _abandon(self, request_id: int, reason: str) -> None:
        # Where each request has its own stream, closing that stream is the cancellation, and no message is.
        if not self._channel.stream_per_request:
            super()._abandon(request_id, reason)

    # messages outside requests

    def listen(self) -> None:
        """Receive changes of the backend's lists."""
        self._listening = True
        if self._listener is None and self._filter():
            self._listener = asyncio.create_task(self._listen(), name="subscriptions/listen")

    def watch(self, uris: Iterable[str], *, again: bool = False) -> None:
        """Receive updates of exactly these resources, too; ``again``: another session did so before."""
        wanted = frozenset(uris)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
        self._again = again
        self._settled.clear()
        self.listen()

    async def watching(self) -> None:
        """Return once the backend has said which resources it agrees to tell of, or has not within a few seconds."""
        if self._wanted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ACKNOWLEDGED_SECONDS):
                    await self._settled.wait()

    def _filter(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        for kind in ("tools", "prompts", "resources"):
            if object_member(self.capabilities.get(kind)).get("listChanged") is True:
                chosen[f"{kind}ListChanged"] = True
        if self._wanted:
            chosen["resourceSubscriptions"] = sorted(self._wanted)
        return chosen

    async def _listen(self) -> None:
        pause, again = FIRST_RETRY, self._again
        while self.fault is None:
            started = asyncio.get_running_loop().time()
            try:
                if not await self._listen_once(again):
                    return
            except ChannelError as error:
                log.debug("subscriptions/listen ended: %s", error)
            if asyncio.get_running_loop().time() - started > LONGEST_RETRY:
                pause = FIRST_RETRY
            await asyncio.sleep(pause)
            pause, again = min(pause * 2, LONGEST_RETRY), True

    async def _listen_once(self, again: bool) -> bool:
        """One stream, from request to end; False where the backend refuses to have any."""
        params = Raw(b'{"notifications":%s}' % jsonrpc.encode(self._filter()))
        message: Envelope = {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"subscriptions/listen"'), "params": params}
        request_id = self._next_id()
        self._stream = _Stream(request_id, self._wanted, again)
        try:
            answer = await self._exchange(request_id, completed(message, self._hello), None, None)
        except asyncio.CancelledError:
            self._abandon(request_id, "no longer needed")
            raise
        if "error" in answer:
            self._events.notified(self, ACKNOWLEDGED, _acknowledging_nothing(request_id), None)
            return False
        return True

    def acknowledgement(self, message: Envelope) -> Acknowledgement | None:
        """What ``notifications/subscriptions/acknowledged`` says; None where it is of an earlier stream, or unreadable
        (basic/patterns/subscriptions, Acknowledgment)."""
        stream = self._stream
        try:
            params = jsonrpc.decode_any(message.get("params", jsonrpc.NULL))
        except jsonrpc.DecodeError:
            return None
        subscription = object_member(object_member(params).get("_meta")).get(META_SUBSCRIPTION)
        if stream is None or str(subscription) != str(stream.request_id):
            return None
        self._settled.set()
        agreed = object_member(object_member(params).get("notifications")).get("resourceSubscriptions")
        return Acknowledgement(stream.wanted.difference(agreed if isinstance(agreed, list) else ()), stream.again)

    async def aclose(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._listener})
        await super().aclose()


def _acknowledging_nothing(request_id: int) -> Envelope:
    """What a backend says in effect that refuses to have a stream."""
    params = {"notifications": {}, "_meta": {META_SUBSCRIPTION: request_id}}
    return {
        "jsonrpc": jsonrpc.VERSION,
        "method": Raw(jsonrpc.encode(ACKNOWLEDGED)),
        "params": Raw(jsonrpc.encode(params)),
    }
