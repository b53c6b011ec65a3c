"""The ``_meta`` that makes a request of the stateless era complete, and the headers that repeat parts of it.

(2026-07-28, basic/index "Per-request protocol fields" and basic/transports/streamable-http "Request Metadata".)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp.shared.inbound import encode_header_value, find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from msgspec import Raw

from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import (
    META_CAPABILITIES,
    META_CLIENT,
    META_LOG_LEVEL,
    META_VERSION,
    STATELESS_VERSION,
)
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope

NAME_MEMBER: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which member of ``params`` the Mcp-Name header repeats."""

HeaderMap = Mapping[tuple[str, ...], str]
"""From the path of a tool's argument to the name behind ``Mcp-Param-``."""

_VERSION: Final = Raw(jsonrpc.encode(STATELESS_VERSION))
_MARK: Final = META_VERSION.encode()


def is_complete(message: Envelope) -> bool:
    """Whether the request has a version of its own in ``_meta``, as those of stateless clients do."""
    params = message.get("params")
    return params is not None and _MARK in bytes(params)


def completed(message: Envelope, hello: Hello, log_level: str | None = None) -> Envelope:
    """The request with the ``_meta`` of the client that ``hello`` describes; its other ``_meta`` stays."""
    params = jsonrpc.decode_envelope(message.get("params", Raw(b"{}")))
    meta = jsonrpc.decode_envelope(params.get("_meta", Raw(b"{}")))
    meta[META_VERSION] = _VERSION
    meta[META_CLIENT] = Raw(hello.client_info)
    meta[META_CAPABILITIES] = Raw(hello.capabilities)
    if log_level is not None:
        meta[META_LOG_LEVEL] = Raw(jsonrpc.encode(log_level))
    params["_meta"] = Raw(jsonrpc.encode(meta))
    return {**message, "params": Raw(jsonrpc.encode(params))}


def stripped(message: Envelope) -> Envelope:
    """The request without what only the stateless era has, for a backend of the other one."""
    params = jsonrpc.decode_envelope(message.get("params", Raw(b"{}")))
    meta = jsonrpc.decode_envelope(params.get("_meta", Raw(b"{}")))
    for member in (META_VERSION, META_CLIENT, META_CAPABILITIES, META_LOG_LEVEL):
        meta.pop(member, None)
    if meta:
        params["_meta"] = Raw(jsonrpc.encode(meta))
    else:
        params.pop("_meta", None)
    params.pop("inputResponses", None)
    params.pop("requestState", None)
    return {**message, "params": Raw(jsonrpc.encode(params))}


def header_lines(message: Envelope, arguments_in_headers: Mapping[str, HeaderMap]) -> bytes:
    """Mcp-Method, Mcp-Name and Mcp-Param-* for a request; ``arguments_in_headers`` by the backend's tool name."""
    method = jsonrpc.decode_str(message["method"])
    lines = [f"mcp-method: {method}\r\n"]
    member = NAME_MEMBER.get(method)
    if member is not None:
        params = jsonrpc.decode_envelope(message["params"])
        name = jsonrpc.decode_str(params[member])
        lines.append(f"mcp-name: {encode_header_value(name)}\r\n")
        if method == "tools/call" and (header_map := arguments_in_headers.get(name)):
            arguments = jsonrpc.decode_any(params.get("arguments", Raw(b"{}")))
            if isinstance(arguments, dict):
                lines += [f"{key}: {value}\r\n" for key, value in mcp_param_headers(header_map, arguments).items()]
    return "".join(lines).encode("ascii")


def argument_headers(input_schema: Raw) -> HeaderMap:
    """Which arguments of a tool are repeated in headers (``x-mcp-header`` in its schema).

    Raises ValueError where the annotation breaks the rules: such a tool must not be offered.
    """
    if b'"x-mcp-header"' not in bytes(input_schema):
        return {}
    schema = jsonrpc.decode_any(input_schema)
    if (defect := find_invalid_x_mcp_header(schema)) is not None:
        raise ValueError(f"invalid x-mcp-header: {defect}")
    return x_mcp_header_map(schema)
