"""Responses of backends as clients of the stateless era may get them.

What a backend of the other era could not know of is added (``resultType``, caching hints of a read), and errors whose
codes no longer exist are said in today's way (MCP 2026-07-28, basic/index, "Error Codes").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from mcp_connections.proxy.downstream.client_capability import takes_urls
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import MISSING_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, Envelope

_COMPLETE: Final = Raw(b'"complete"')


def of_this_era(response: Envelope, method: str, capabilities: Mapping[str, Any]) -> Envelope:
    """The response to ``method`` for a client with these capabilities."""
    if (error := response.get("error")) is not None:
        return _with_todays_error(response, error, capabilities)
    result = response.get("result")
    if result is None:
        return response
    try:
        members = jsonrpc.decode_envelope(result)
    except jsonrpc.DecodeError:
        return response
    given = len(members)
    members.setdefault("resultType", _COMPLETE)
    if method == "resources/read" and bytes(members["resultType"]) == bytes(_COMPLETE):
        members.setdefault("ttlMs", Raw(b"0"))
        members.setdefault("cacheScope", Raw(b'"private"'))
    if len(members) > given:
        response["result"] = Raw(jsonrpc.encode(members))
    return response


def code_of(error: Raw | None) -> int | None:
    """The code of a response's error, if it is an error and has one."""
    if error is None:
        return None
    try:
        code = jsonrpc.decode_any(jsonrpc.decode_envelope(error).get("code", jsonrpc.NULL))
    except jsonrpc.DecodeError:
        return None
    return code if isinstance(code, int) else None


def _with_todays_error(response: Envelope, raw: Raw, capabilities: Mapping[str, Any]) -> Envelope:
    code = code_of(raw)
    if code == RESOURCE_NOT_FOUND:
        response["error"] = _changed(raw, code=INVALID_PARAMS)
    elif code == URL_ELICITATION_REQUIRED:
        if not takes_urls(capabilities):
            required: dict[str, object] = {"requiredCapabilities": {"elicitation": {"url": {}}}}
            response["error"] = _changed(raw, code=MISSING_CLIENT_CAPABILITY, data=required)
        elif (questions := _pages_to_visit(raw)) is None:
            response["error"] = _changed(raw, code=INTERNAL_ERROR)
        else:
            del response["error"]
            response["result"] = questions
    return response


def _changed(raw: Raw, **members: object) -> Raw:
    return Raw(jsonrpc.encode({**jsonrpc.decode_envelope(raw), **members}))


def _pages_to_visit(raw: Raw) -> Raw | None:
    """The ``input_required`` result that asks for what -32042 asked for (2025-11-25, client/elicitation, "URL
    Elicitation Required Error"). A client then calls again, which is the same in both eras: there is no state."""
    try:
        data = jsonrpc.decode_envelope(jsonrpc.decode_envelope(raw)["data"])
        pages = jsonrpc.decode_items(data["elicitations"])
    except (jsonrpc.DecodeError, KeyError):
        return None
    requests = {f"u{n}": {"method": "elicitation/create", "params": page} for n, page in enumerate(pages, start=1)}
    return Raw(jsonrpc.encode({"resultType": "input_required", "inputRequests": requests}))
