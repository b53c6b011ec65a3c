"""Which clients want the updates of which resources of a mount.

What a backend says of a resource then concerns those who subscribed to it, whichever session it says it in.
"""

from __future__ import annotations

from msgspec import Raw

from mcp_connections.mounts.uris import public_uri
from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import META_SUBSCRIPTION
from mcp_connections.proxy.wire.jsonrpc import Envelope


def updated(uri: str) -> bytes:
    """``notifications/resources/updated`` for a public URI."""
    return jsonrpc.notification("notifications/resources/updated", b'{"uri":%s}' % jsonrpc.encode(uri))


class Subscriptions:
    """Which clients want the updates of which resources of a mount, by the backend's URIs."""

    def __init__(self, prefix: str) -> None:
        """``prefix``: that of the mount, for public URIs."""
        self._prefix = prefix
        self._clients: dict[str, set[Client]] = {}

    @property
    def uris(self) -> tuple[str, ...]:
        """Everything somebody is subscribed to."""
        return tuple(self._clients)

    def add(self, uri: str, client: Client) -> None:
        """One more."""
        self._clients.setdefault(uri, set()).add(client)

    def remove(self, uri: str, client: Client) -> bool:
        """One less; whether nobody is left."""
        clients = self._clients.get(uri, set())
        clients.discard(client)
        if not clients:
            self._clients.pop(uri, None)
        return not clients

    def forget(self, client: Client) -> list[str]:
        """A client left; what nobody is subscribed to any more."""
        mine = [uri for uri, clients in self._clients.items() if client in clients]
        return [uri for uri in mine if self.remove(uri, client)]

    def resumed(self, uri: str) -> None:
        """The backend was subscribed to anew. Whether the resource changed meanwhile nobody knows but who reads it."""
        for client in tuple(self._clients.get(uri, ())):
            client.deliver(updated(public_uri(self._prefix, uri)))

    def refused(self, uri: str, cause: str) -> None:
        """The backend would not be subscribed to anew."""
        for client in self._clients.pop(uri, ()):
            client.subscription_ended(public_uri(self._prefix, uri), cause)

    def updated(self, message: Envelope) -> None:
        """Pass ``notifications/resources/updated`` on, under the public URI."""
        try:
            params = jsonrpc.decode_envelope(message.get("params", jsonrpc.NULL))
            uri = jsonrpc.decode_str(params["uri"])
            meta = jsonrpc.decode_envelope(params.get("_meta", Raw(b"{}")))
        except (jsonrpc.DecodeError, KeyError):
            return
        if meta.pop(META_SUBSCRIPTION, None) is not None:  # names a subscription of ours, not the client's
            del params["_meta"]
            if meta:
                params["_meta"] = Raw(jsonrpc.encode(meta))
        params["uri"] = Raw(jsonrpc.encode(public_uri(self._prefix, uri)))
        message["params"] = Raw(jsonrpc.encode(params))
        body = jsonrpc.encode(message)
        # A server may report a part of what was subscribed to, under its own URI (server/resources).
        for client in {
            each for subscribed, clients in self._clients.items() if uri.startswith(subscribed) for each in clients
        }:
            client.deliver(body)
