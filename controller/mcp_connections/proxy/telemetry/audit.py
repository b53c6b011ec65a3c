"""The audit line: who asked which connection for what, and how it ended (``spec.audit`` of the McpProxy).

Never an argument, a result or a credential: of a client its subject, of a request what metrics count, plus the name of
the tool, prompt or resource.
"""

from __future__ import annotations

import logging
from typing import Final

from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import NAME_MEMBER
from mcp_connections.proxy.wire.jsonrpc import Envelope

LOGGER: Final = "mcp_connections.audit"
"""Its lines are written whatever the log level is: whoever asks for them wants all."""
LONGEST: Final = 256
"""Characters of a name or URI in a line."""

_log = logging.getLogger(LOGGER)
_log.setLevel(logging.INFO)

_MEMBERS: Final = {**NAME_MEMBER, "completion/complete": "ref"}


def target_of(method: str, message: Envelope) -> str:
    """What a request is for, by the backend's own name: a tool, a prompt, a URI, what is completed."""
    params = jsonrpc.members(message.get("params"), method)
    value = jsonrpc.decode_any(params[_MEMBERS[method]])
    if isinstance(value, dict):
        value = value.get("uri" if value.get("type") == "ref/resource" else "name", "")
    return str(value)[:LONGEST]


def record(
    principal: Principal,
    *,
    connection: str,
    method: str,
    target: str,
    outcome: str,
    seconds: float,
    trace_id: str | None = None,
) -> None:
    """Write the line. ``outcome``: one of ``metrics.OUTCOMES``."""
    fields: dict[str, object] = {
        "connection": connection,
        "method": method,
        "target": target,
        "client": subject(principal),
        "outcome": outcome,
        "seconds": round(seconds, 6),
    }
    if trace_id is not None:
        fields["traceId"] = trace_id
    _log.info("call %s", " ".join(f"{name}={value!r}" for name, value in fields.items()), extra=fields)


def subject(principal: Principal) -> str:
    """Who the client is, as far as its token says; empty where clients have no names."""
    return str(principal.claims.get("sub") or principal.claims.get("client_id") or "")[:LONGEST]
