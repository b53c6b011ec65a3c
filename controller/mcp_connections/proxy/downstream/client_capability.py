"""What a client must have declared before a backend may ask it (basic/lifecycle, Capability Negotiation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Envelope, RpcError

CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


def refusal(method: str, message: Envelope, capabilities: Mapping[str, Any]) -> RpcError | None:
    """The error for a backend that asks what the client cannot answer; None where it may ask."""
    capability = CAPABILITY_OF.get(method)
    if capability is None:
        return None
    if capability not in capabilities:
        return RpcError(METHOD_NOT_FOUND, f"the client does not support {method}: it did not declare {capability!r}")
    if capability == "elicitation" and _is_by_url(message) and not takes_urls(capabilities):
        # A client that does not know the mode would show an empty form, and its user would consent to nothing
        # (client/elicitation, Capabilities: an empty object stands for forms alone).
        return RpcError(INVALID_PARAMS, "the client does not support elicitation in mode 'url': it declared only forms")
    return None


def takes_urls(capabilities: Mapping[str, Any]) -> bool:
    """Whether the client can be asked to have its user visit a page."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and "url" in declared


def _is_by_url(message: Envelope) -> bool:
    try:
        mode = jsonrpc.decode_envelope(message.get("params", jsonrpc.NULL)).get("mode", jsonrpc.NULL)
        return jsonrpc.decode_str(mode) == "url"
    except jsonrpc.DecodeError:
        return False


def can_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether the client can answer any question at all."""
    return not capabilities.keys().isdisjoint(CAPABILITY_OF.values())
