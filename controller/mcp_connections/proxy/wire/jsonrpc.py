"""JSON-RPC 2.0 envelopes, decoded one level deep.

A relay is not the author of what it carries: only the members that routing needs are decoded, all others stay
``msgspec.Raw`` and are written back byte for byte (numbers beyond 2^53, duplicate spellings, unknown members).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from mcp_connections.proxy.wire import lenient_json

T = TypeVar("T")

Envelope = dict[str, msgspec.Raw]
"""A JSON-RPC message decoded one level deep: members that are only carried stay the bytes they were."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, server/resources, Error Handling."""

NULL: Final = msgspec.Raw(b"null")
VERSION: Final = msgspec.Raw(b'"2.0"')

Decode = Callable[[bytes | msgspec.Raw], T]
DecodeError = msgspec.MsgspecError


def _or(strict: Decode[T], lenient: Decode[T]) -> Decode[T]:
    """``strict``, and where that fails ``lenient``; text nested too deeply is just one more kind of bad text."""

    def decode(raw: bytes | msgspec.Raw) -> T:
        try:
            return strict(raw)
        except DecodeError as error:
            try:
                return lenient(raw)
            except (ValueError, RecursionError):
                raise error from None
        except RecursionError:
            raise msgspec.DecodeError("it is nested too deeply") from None

    return decode


decode_envelope: Decode[Envelope] = _or(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode, lenient_json.members)
decode_items: Decode[list[msgspec.Raw]] = _or(msgspec.json.Decoder(list[msgspec.Raw]).decode, lenient_json.items)
decode_str: Decode[str] = msgspec.json.Decoder(str).decode
decode_any: Decode[Any] = _or(msgspec.json.Decoder(Any).decode, lenient_json.value)
"""To look at a value: what it gives need not encode to the same text again."""
encode = msgspec.json.Encoder().encode


class RpcError(Exception):
    """An error to answer a request with. ``data`` must be JSON-serialisable."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def body(self) -> bytes:
        """The JSON of the ``error`` member."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return encode(error)


def require_utf8(text: bytes) -> None:
    """Raises DecodeError for text that is not UTF-8: msgspec does not look into what it only skips."""
    if not _is_utf8(text):
        raise msgspec.DecodeError("it is not UTF-8")


def as_utf8(text: bytes) -> bytes:
    """``text`` with U+FFFD for what is no UTF-8 in it: one such byte would make everything unreadable that the text is
    put into, and the item of one backend goes into a list of all."""
    return text if _is_utf8(text) else text.decode("utf-8", "replace").encode()


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def method_of(message: Envelope) -> str | None:
    """The method of a request or notification; None for a response, or where it is not a string."""
    raw = message.get("method")
    if raw is None:
        return None
    try:
        return decode_str(raw)
    except DecodeError:
        return None


def int_id(message: Envelope) -> int | None:
    """The id of a response to a request of ours (ours are integers); None for any other."""
    raw = message.get("id")
    if raw is None:
        return None
    try:
        # Some servers answer id 7 with "7" or 7.0; both can only mean the request numbered 7.
        return int(bytes(raw).strip(b'"').removesuffix(b".0"))
    except ValueError:
        return None


def is_response(message: Envelope) -> bool:
    """Whether the message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def request(request_id: int, method: str, params: bytes | None) -> bytes:
    """A request of ours."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%d,"method":%s}' % (request_id, encode(method))
    return b'{"jsonrpc":"2.0","id":%d,"method":%s,"params":%s}' % (request_id, encode(method), params)


def notification(method: str, params: bytes | None = None) -> bytes:
    """A notification."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%s}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%s,"params":%s}' % (encode(method), params)


def result(request_id: bytes, body: bytes) -> bytes:
    """A successful response to the request whose raw id is given."""
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (request_id, body)


def failure(request_id: bytes, error: RpcError) -> bytes:
    """An error response; ``b"null"`` is the id of a request that could not be read."""
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (request_id, error.body())


def members(raw: msgspec.Raw | None, what: str) -> dict[str, msgspec.Raw]:
    """The members of an object-valued ``params``; an absent one is empty. Raises RpcError (-32602)."""
    if raw is None:
        return {}
    try:
        return decode_envelope(raw)
    except DecodeError as error:
        raise RpcError(INVALID_PARAMS, f"{what}: params must be an object ({error})") from None


def string_member(params: dict[str, msgspec.Raw], name: str, what: str) -> str:
    """A required string member of ``params``. Raises RpcError (-32602)."""
    raw = params.get(name)
    if raw is None:
        raise RpcError(INVALID_PARAMS, f"{what}: params.{name} is missing")
    try:
        return decode_str(raw)
    except DecodeError:
        raise RpcError(INVALID_PARAMS, f"{what}: params.{name} must be a string") from None
