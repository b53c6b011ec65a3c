"""The way back to a stateless client for one request: log messages only as far as it asked for them, and an HTTP status
that goes with the JSON-RPC error."""

from __future__ import annotations

from starlette.types import Receive, Send

from mcp_connections.proxy.downstream.request_stream import RequestStream
from mcp_connections.proxy.downstream.stateless.client import PooledClient
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.forwarded_headers import Fields
from mcp_connections.proxy.wire.log_level import reaches


class StatelessStream(RequestStream[PooledClient]):
    """A RequestStream for one request of 2026-07-28."""

    __slots__ = ("log_level",)

    def __init__(
        self,
        client: PooledClient,
        receive: Receive,
        send: Send,
        *,
        streams: bool,
        log_level: str | None,
        fields: Fields = (),
    ) -> None:
        super().__init__(client, receive, send, streams=streams, fields=fields)
        self.log_level = log_level

    def deliver(self, message: bytes) -> None:
        """Send a notification ahead of the response; a log message only at or above the level asked for."""
        if b'"notifications/message"' not in message or self._wants_log(message):
            super().deliver(message)

    def _wants_log(self, message: bytes) -> bool:
        decoded = jsonrpc.decode_envelope(message)
        if jsonrpc.method_of(decoded) != "notifications/message":
            return True
        if self.log_level is None:
            return False
        try:
            level = jsonrpc.decode_envelope(decoded.get("params", jsonrpc.NULL)).get("level", jsonrpc.NULL)
            return reaches(jsonrpc.decode_any(level), self.log_level)
        except jsonrpc.DecodeError:
            return False
