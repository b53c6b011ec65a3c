"""Streamable HTTP for clients of the stateless era: one POST, one answer.

(MCP 2026-07-28, basic/transports/streamable-http.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)
from msgspec import Raw
from starlette.types import Receive, Send

from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.downstream.leaving import RETRY_AFTER, STOPPING, Leaving
from mcp_connections.proxy.downstream.request_stream import send_body
from mcp_connections.proxy.downstream.running_requests import forgive_cancellation
from mcp_connections.proxy.downstream.stateless.client import ClientPool, PooledClient
from mcp_connections.proxy.downstream.stateless.listen_stream import ListenStream
from mcp_connections.proxy.downstream.stateless.relay import StatelessRelay
from mcp_connections.proxy.downstream.stateless.stream import StatelessStream
from mcp_connections.proxy.registry.client import PROXY_HELLO
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import NAME_MEMBER
from mcp_connections.proxy.wire.eras import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    META_CAPABILITIES,
    META_CLIENT,
    META_LOG_LEVEL,
    META_VERSION,
    SUPPORTED_VERSIONS,
    UNSUPPORTED_VERSION,
)
from mcp_connections.proxy.wire.hello import Hello, hello_of
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Envelope, RpcError
from mcp_connections.proxy.wire.log_level import LOG_LEVELS

log = logging.getLogger(__name__)

_PROTOCOL_META: Final = (META_VERSION, META_CLIENT, META_CAPABILITIES)

Headers = Mapping[bytes, bytes]


def is_stateless(headers: Headers, message: Envelope) -> bool:
    """Whether a POST is of this era: by its version header, or without one by the version in its ``_meta``."""
    version = headers.get(b"mcp-protocol-version")
    if version is not None:
        return version.decode("latin-1") not in HANDSHAKE_VERSIONS
    params = message.get("params")
    return b"mcp-session-id" not in headers and params is not None and META_VERSION.encode() in bytes(params)


class StatelessEndpoint:
    """Serves POSTs of 2026-07-28."""

    def __init__(self, registry: Registry, relay: StatelessRelay, leaving: Leaving) -> None:
        self._registry = registry
        self._relay = relay
        self._leaving = leaving
        self._pool = ClientPool(registry)
        self._listening: set[ListenStream] = set()

    async def post(
        self,
        raw_headers: list[tuple[bytes, bytes]],
        principal: Principal,
        message: Envelope,
        receive: Receive,
        send: Send,
        *,
        streams: bool,
    ) -> None:
        """Answer one POST. ``streams``: the client accepts text/event-stream."""
        method = jsonrpc.method_of(message)
        request_id = message.get("id")
        if request_id is None and method is not None:
            await send_body(send, 202, b"")  # this era has no notifications that mean anything here
            return
        if request_id is None or method is None or bytes(request_id) == b"null":
            error = RpcError(INVALID_REQUEST, "the body must be one JSON-RPC request or notification")
            await send_body(send, 400, jsonrpc.failure(b"null", error))
            return
        if self._leaving.refuses:
            error = RpcError(INTERNAL_ERROR, STOPPING)
            await send_body(send, 503, jsonrpc.failure(bytes(request_id), error), [RETRY_AFTER])
            return
        try:
            meta = self._validate(raw_headers, principal, method, message)
            client = self._pool.get(principal, _hello(meta))
            log_level = _log_level(meta)
        except jsonrpc.DecodeError as error:
            bad = RpcError(INVALID_PARAMS, f"{method}: params cannot be read: {error}")
            await send_body(send, http_status(bad.code), jsonrpc.failure(bytes(request_id), bad))
            return
        except RpcError as error:
            await send_body(send, http_status(error.code), jsonrpc.failure(bytes(request_id), error))
            return
        if method == "subscriptions/listen":
            await self._listen(client, bytes(request_id), message, receive, send)
        else:
            stream = StatelessStream(client, receive, send, streams=streams, log_level=log_level, fields=raw_headers)
            with self._leaving.request():
                await self._request(client, method, bytes(request_id), message, stream)

    # validation

    def _validate(
        self, raw_headers: list[tuple[bytes, bytes]], principal: Principal, method: str, message: Envelope
    ) -> dict[str, Raw]:
        """The request's ``_meta``. Raises RpcError (basic/transports/streamable-http, Server Validation)."""
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw_headers]
        if (twice := find_duplicated_routing_header(pairs)) is not None:
            raise RpcError(HEADER_MISMATCH, f"the header {twice} was sent more than once")
        headers = dict(pairs)
        params = jsonrpc.members(message.get("params"), method)
        shallow: dict[str, Any] = {}
        name = NAME_MEMBER.get(method)
        if name is not None and name in params:
            shallow[name] = jsonrpc.decode_any(params[name])
        meta: dict[str, Raw] = {}
        if "_meta" in params:
            meta = jsonrpc.members(params["_meta"], f"{method}: params._meta")
            shallow["_meta"] = {key: jsonrpc.decode_any(meta[key]) for key in _PROTOCOL_META if key in meta}
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in SUPPORTED_VERSIONS:
            raise RpcError(
                UNSUPPORTED_VERSION,
                "Unsupported protocol version",
                {"supported": list(SUPPORTED_VERSIONS), "requested": version},
            )
        verdict = classify_inbound_request({"method": method, "params": shallow}, headers=headers)
        if isinstance(verdict, InboundLadderRejection):
            raise RpcError(verdict.code, verdict.message, verdict.data)
        if method == "tools/call" and isinstance(shallow.get("name"), str):
            self._validate_argument_headers(principal, shallow["name"], params, headers)
        return meta

    def _validate_argument_headers(
        self, principal: Principal, name: str, params: dict[str, Raw], headers: dict[str, str]
    ) -> None:
        target = self._registry.view(principal, "stateless").targets["tool"].get(name)
        schema = target.owner.schema_with_headers(target.own) if target is not None else None
        if schema is None:
            return
        arguments = jsonrpc.decode_any(params.get("arguments", Raw(b"{}")))
        if isinstance(arguments, dict):
            rejection = validate_mcp_param_headers(schema, arguments, headers)
            if rejection is not None:
                raise RpcError(rejection.code, rejection.message, rejection.data)

    # answers

    async def _request(
        self,
        client: PooledClient,
        method: str,
        request_id: bytes,
        message: Envelope,
        stream: StatelessStream,
    ) -> None:
        client.busy += 1
        try:
            body, code = await self._relay.answer(client, method, request_id, message, stream)
        except RpcError as error:
            body, code = jsonrpc.failure(request_id, error), error.code
        except asyncio.CancelledError:
            forgive_cancellation()  # closing the stream is how a client of this era cancels
            stream.abandon()
            return
        except Exception as error:
            log.exception("%s: unexpected failure", method)
            body = jsonrpc.failure(request_id, RpcError(INTERNAL_ERROR, f"{method}: unexpected failure: {error!r}"))
            code = INTERNAL_ERROR
        finally:
            client.busy -= 1
        await stream.finish(body, http_status(code))

    async def _listen(
        self, client: PooledClient, request_id: bytes, message: Envelope, receive: Receive, send: Send
    ) -> None:
        stream = ListenStream(self._registry, client, request_id)
        client.busy += 1
        self._listening.add(stream)
        try:
            self._relay.admit(client)
            await stream.open(jsonrpc.members(message.get("params"), "subscriptions/listen"))
            await stream.run(receive, send)
        except RpcError as error:
            await send_body(send, http_status(error.code), jsonrpc.failure(request_id, error))
        finally:
            self._listening.discard(stream)
            client.busy -= 1
            await stream.close()

    def close_streams(self) -> None:
        """End all subscriptions and open questions, so that a server that stops does not wait for them."""
        for stream in tuple(self._listening):
            stream.stop()
        self._relay.cancel_all()


def _hello(meta: Mapping[str, Raw]) -> Hello:
    info = meta.get(META_CLIENT, jsonrpc.NULL)
    client_info = PROXY_HELLO.client_info if bytes(info) == b"null" else bytes(info)
    return hello_of(client_info, bytes(meta[META_CAPABILITIES]))


def _log_level(meta: Mapping[str, Raw]) -> str | None:
    raw = meta.get(META_LOG_LEVEL)
    level = None if raw is None else jsonrpc.decode_any(raw)
    if level is not None and level not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"params._meta[{META_LOG_LEVEL!r}] must be one of {', '.join(LOG_LEVELS)}")
    return level


def http_status(error_code: int | None) -> int:
    """The HTTP status of a response, whether the error in it is ours or the backend's (basic/transports)."""
    return 200 if error_code is None else ERROR_CODE_HTTP_STATUS.get(error_code, 200)
