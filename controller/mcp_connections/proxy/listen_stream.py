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

from mcp_connections.proxy import jsonrpc
from mcp_connections.proxy.channel import Envelope
from mcp_connections.proxy.disconnects import until_gone
from mcp_connections.proxy.eras import META_SUBSCRIPTION, Era
from mcp_connections.proxy.event_stream import PING, encode_event
from mcp_connections.proxy.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from mcp_connections.proxy.mount import Mount
from mcp_connections.proxy.outbox import Outbox
from mcp_connections.proxy.registry import Registry
from mcp_connections.proxy.request_stream import SILENCE_SECONDS, STREAM_HEADERS
from mcp_connections.proxy.stateless_client import PooledClient
from mcp_connections.proxy.upstream import Asker, Scope

log = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000
MAX_URIS: Final = 1000
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
        self._pooled = client
        self._request_id = request_id
        self._lists: set[str] = set()
        self._subscribed: list[tuple[Mount, str]] = []
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
        agreed: list[str] = []
        for uri in uris:
            target = self._registry.view(self.principal, self.era).locate(uri)
            if target is not None and await self._subscribe_one(target.owner, target.own):
                agreed.append(uri)
        return agreed

    async def _subscribe_one(self, mount: Mount, uri: str) -> bool:
        if not mount.offers_subscriptions(self.era):
            return False
        message = _request("resources/subscribe", uri)
        try:
            answer = await mount.attend(lambda leg: leg.subscribe(self, uri, message), self._pooled)
        except RpcError as error:
            log.info("a subscription was left out: %s", error)
            return False
        if "error" in answer:
            return False
        self._subscribed.append((mount, uri))
        return True

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
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    event = await self._queue.get()
            except TimeoutError:
                event = PING
            if event is None:
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
        for mount, uri in self._subscribed:
            message = _request("resources/unsubscribe", uri)
            try:
                await mount.attend(lambda leg: leg.unsubscribe(self, uri, message), self._pooled)  # noqa: B023
            except RpcError as error:
                log.debug("unsubscribing from a connection: %s", error)


def _request(method: str, uri: str) -> Envelope:
    params = Raw(b'{"uri":%s}' % jsonrpc.encode(uri))
    return {"jsonrpc": jsonrpc.VERSION, "method": Raw(jsonrpc.encode(method)), "params": params}
