"""What a client must have declared before a backend may ask it (basic/lifecycle, Capability Negotiation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_connections.proxy.jsonrpc import METHOD_NOT_FOUND, RpcError

CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


def refusal(method: str, capabilities: Mapping[str, Any]) -> RpcError | None:
    """The error for a backend that asks what the client cannot answer; None where it may ask."""
    capability = CAPABILITY_OF.get(method)
    if capability is None or capability in capabilities:
        return None
    return RpcError(METHOD_NOT_FOUND, f"the client does not support {method}: it did not declare {capability!r}")


def can_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether the client can answer any question at all."""
    return not capabilities.keys().isdisjoint(CAPABILITY_OF.values())
