"""The stateless era towards a backend: ``server/discover``, complete requests, ``subscriptions/listen``.

There is no session at the backend, so one of these serves all clients of a mount; what keeps them apart is the
``_meta`` of each request (MCP 2026-07-28, basic/versioning).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Raw

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy import jsonrpc
from mcp_connections.proxy.channel import Channel, ChannelError, Envelope, HandshakeRefused, TimedOut
from mcp_connections.proxy.envelope import HeaderMap, completed, header_lines, is_complete
from mcp_connections.proxy.eras import META_LOG_LEVEL, META_SERVER, META_SUBSCRIPTION, STATELESS_VERSION
from mcp_connections.proxy.upstream import Hello, Scope, UpstreamEvents, UpstreamSession, object_member

log = logging.getLogger(__name__)

FIRST_RETRY: Final = 1.0
LONGEST_RETRY: Final = 30.0


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

    def watch(self, uris: Iterable[str]) -> None:
        """Receive updates of exactly these resources, too."""
        wanted = frozenset(uris)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
        self.listen()

    def _filter(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        for kind in ("tools", "prompts", "resources"):
            if object_member(self.capabilities.get(kind)).get("listChanged") is True:
                chosen[f"{kind}ListChanged"] = True
        if self._wanted:
            chosen["resourceSubscriptions"] = sorted(self._wanted)
        return chosen

    async def _listen(self) -> None:
        pause = FIRST_RETRY
        while self.fault is None:
            started = asyncio.get_running_loop().time()
            try:
                if not await self._listen_once():
                    return
            except ChannelError as error:
                log.debug("subscriptions/listen ended: %s", error)
            if asyncio.get_running_loop().time() - started > LONGEST_RETRY:
                pause = FIRST_RETRY
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_RETRY)

    async def _listen_once(self) -> bool:
        """One stream, from request to end; False where the backend refuses to have any."""
        params = Raw(b'{"notifications":%s}' % jsonrpc.encode(self._filter()))
        message: Envelope = {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"subscriptions/listen"'), "params": params}
        request_id = self._next_id()
        try:
            answer = await self._exchange(request_id, completed(message, self._hello), None, None)
        except asyncio.CancelledError:
            self._abandon(request_id, "no longer needed")
            raise
        return "error" not in answer

    async def aclose(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._listener})
        await super().aclose()
