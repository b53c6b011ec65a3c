"""How a bridge tells a proxy what befell the program that it runs, and how a proxy understands it.

A program that is missing or has ended is not what HTTP calls an error, and a JSON-RPC error alone could be the
program's own. So the bridge marks its own, and the proxy takes a marked one for what it would have seen itself.
"""

from __future__ import annotations

from typing import Any, Final

from mcp_connections.proxy.channels.channel import (
    ChannelError,
    CommandNotFound,
    Exited,
    ProtocolViolation,
    TimedOut,
    Unreachable,
)
from mcp_connections.proxy.channels.exits import Exits
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, DecodeError, Envelope, RpcError

MARK: Final = "io.mcp-connections/bridgeFault"
"""Member of an error's ``data``."""
LONGEST: Final = 8192
"""Characters of a text that are taken over: the tail of a stderr fits in."""
_KINDS: Final = {kind.reason: kind for kind in (CommandNotFound, Exited, TimedOut, ProtocolViolation, Unreachable)}


def told(error: ChannelError, exits: Exits) -> RpcError:
    """The error that a bridge answers with, and how often its program has ended by now."""
    counted = {"id": exits.id, "count": exits.count}
    data = {MARK: {"reason": error.reason, "executed": error.executed, "exits": counted}}
    return RpcError(INTERNAL_ERROR, str(error)[:LONGEST], data)


def raise_fault(answer: Envelope, exits: Exits) -> None:
    """Raises the ChannelError that the answer of a bridge tells of, if it does; ``exits`` takes the count over."""
    if "error" in answer and (fault := _fault(answer, exits)) is not None:
        raise fault


def told_cause(body: bytes, exits: Exits) -> ChannelError | None:
    """What ended a session, by the body of the answer that says so; None where it does not say. The count is taken
    over as with ``raise_fault``."""
    try:
        message = jsonrpc.decode_envelope(jsonrpc.as_utf8(body))
    except DecodeError:
        return None
    return _fault(message, exits) if "error" in message else None


def _fault(answer: Envelope, exits: Exits) -> ChannelError | None:
    try:
        error: Any = jsonrpc.decode_any(answer["error"])
        mark = error["data"][MARK]
        kind = _KINDS.get(mark["reason"], Unreachable)
        fault = kind(str(error["message"])[:LONGEST], executed=mark["executed"] is not False)
    except (DecodeError, KeyError, TypeError):
        return None
    match mark:
        case {"exits": {"id": str(teller), "count": int(count)}}:  # a bridge of an older image does not count
            exits.told(fault, teller, count)
    return fault
