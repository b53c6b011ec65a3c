"""``subscriptions/listen``: one stream of the changes that a stateless client asked for.

(MCP 2026-07-28, basic/patterns/subscriptions.)
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

from msgspec import Raw
from starlette.types import Receive, Send

from mcp_connections.proxy.downstream.held_subscriptions import HeldSubscriptions
from mcp_connections.proxy.downstream.outbox import Outbox
from mcp_connections.proxy.downstream.request_stream import SILENCE_SECONDS, STREAM_HEADERS
from mcp_connections.proxy.downstream.stateless.client import PooledClient
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.server.disconnects import until_gone
from mcp_connections.proxy.upstream.session import Asker, Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import META_SUBSCRIPTION, Era
from mcp_connections.proxy.wire.event_stream import PING, encode_event
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Envelope, RpcError

log = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000
MAX_URIS: Final = 1000
AT_ONCE: Final = 16
"""Subscriptions of one stream that are made at a time."""
_LISTS: Final = ("tools", "prompts", "resources")


class ListenStream:
    """One open subscription; towards backends it is a Client of its own, reached by its stream."""

    era: Era = "stateless"
    listening = True
    log_level: str | None = None

    def __init__(self, registry: Registry, client: PooledClient, request_id: bytes) -> None:
        self.hello = client.hello
        self.principal = client.principal
        self._registry = registry
        self._request_id = request_id
        self._lists: set[str] = set()
        self._subscriptions = HeldSubscriptions(registry, self, client, self._tell_end)
        self._queue = Outbox("its subscription", MAX_QUEUED)
        self._early: deque[bytes] | None = deque(maxlen=MAX_QUEUED)
        """What came before the acknowledgement, which has to be first; None from then on."""

    async def open(self, params: dict[str, Raw]) -> None:
        """Subscribe to what the filter in ``params`` names and can be had; the acknowledgement says which.

        Raises RpcError.
        """
        wanted = jsonrpc.members(params.get("notifications"), "subscriptions/listen: params.notifications")
        agreed: dict[str, Any] = {}
        mounts = self._registry.mounts_for(self.principal)
        capabilities = {name for mount in mounts for name in mount.capabilities(self.era)} | {"tools"}
        for kind in _LISTS:
            if bytes(wanted.get(f"{kind}ListChanged", Raw(b"false"))) == b"true" and kind in capabilities:
                self._lists.add(kind)
                agreed[f"{kind}ListChanged"] = True
        if "resourceSubscriptions" in wanted:
            agreed["resourceSubscriptions"] = await self._subscribe(wanted["resourceSubscriptions"])
        self._registry.listen(self.era, self._changed)
        early, self._early = self._early or (), None
        self._send("notifications/subscriptions/acknowledged", {"notifications": Raw(jsonrpc.encode(agreed))})
        for event in early:
            self._queue.push(event)

    async def _subscribe(self, raw: Raw) -> list[str]:
        uris = jsonrpc.decode_any(raw)
        if not isinstance(uris, list) or len(uris) > MAX_URIS or not all(isinstance(uri, str) for uri in uris):
            raise RpcError(
                INVALID_PARAMS, f"params.notifications.resourceSubscriptions must be a list of at most {MAX_URIS} URIs"
            )
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._subscribe_one(uri, turns) for uri in uris))
        return [uri for uri in uris if uri in self._subscriptions]

    async def _subscribe_one(self, uri: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            target = self._registry.view(self.principal, self.era).locate(uri)
            if target is None or not target.owner.offers_subscriptions(self.era):
                return
            try:
                await self._subscriptions.subscribe(uri, target.owner, target.own)
            except RpcError as error:
                log.info("a subscription was left out: %s", error)

    # Client

    def deliver(self, message: bytes) -> None:
        """A resource was updated."""
        decoded = jsonrpc.decode_envelope(message)
        self._send(jsonrpc.decode_str(decoded["method"]), jsonrpc.decode_envelope(decoded.get("params", Raw(b"{}"))))

    def ask(self, asker: Asker, method: str, message: Envelope, scope: Scope | None) -> None:
        """Nobody can be asked on this stream."""
        asker.respond(message["id"], "error", RpcError(METHOD_NOT_FOUND, f"{method}: nobody can be asked here").body())

    def withdraw(self, asker: Asker, request_id: Raw, message: Envelope, scope: Scope | None) -> None:
        """Nothing was asked."""

    def subscription_ended(self, uri: str, cause: str) -> None:
        """Updates of a resource come no more."""
        self._subscriptions.end(uri, cause)

    def _tell_end(self, uri: str, cause: str) -> None:
        """End the stream. The client then knows that it has no subscriptions, and the acknowledgement of its next
        stream says which of them it can have (basic/patterns/subscriptions, Graceful Closure)."""
        if self._early is None:  # else the acknowledgement tells it
            self.stop()

    def _changed(self, changes: set[str]) -> None:
        for kind in sorted(changes & self._lists):
            self._send(f"notifications/{kind}/list_changed", {})

    def _send(self, method: str, params: dict[str, Raw]) -> None:
        meta = jsonrpc.decode_envelope(params.get("_meta", Raw(b"{}")))
        meta[META_SUBSCRIPTION] = Raw(self._request_id)
        body = jsonrpc.encode({**params, "_meta": Raw(jsonrpc.encode(meta))})
        event = encode_event(jsonrpc.notification(method, body))
        if self._early is not None:
            self._early.append(event)
        else:
            self._queue.push(event)

    # the stream

    async def run(self, receive: Receive, send: Send) -> None:
        """Send what comes until the client goes away or ``stop`` is called."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await until_gone(receive, lambda: self._write(send))

    async def _write(self, send: Send) -> None:
        access = self._registry.access
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    event = await self._queue.get()
            except TimeoutError:
                event = PING
            if event is None or self._registry.access != access:  # who may come in has changed: to be asked anew
                meta = jsonrpc.encode({META_SUBSCRIPTION: Raw(self._request_id)})
                result = b'{"resultType":"complete","_meta":%s}' % meta
                await send(
                    {"type": "http.response.body", "body": encode_event(jsonrpc.result(self._request_id, result))}
                )
                return
            await send({"type": "http.response.body", "body": event, "more_body": True})

    def stop(self) -> None:
        """End the stream gracefully, after what is queued."""
        self._queue.push(None)

    async def close(self) -> None:
        """Give up the subscriptions."""
        self._registry.unlisten(self.era, self._changed)
        await self._subscriptions.release()
