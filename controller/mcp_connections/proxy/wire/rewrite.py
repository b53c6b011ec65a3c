"""URIs inside results, mapped to what the client can read back.

Only where the protocol says that a member is a resource URI: a tool's structured content or text is its own. Bytes
without a ``uri`` member are never decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from mcp_connections.mounts.uris import public_uri
from mcp_connections.proxy.wire import jsonrpc

Rewrite = Callable[[dict[str, Raw], str], None]


def public_result(method: str, result: Raw, prefix: str) -> Raw:
    """The result of ``method`` with the URIs of a mount under ``prefix`` made public. A result that is not of the
    shape the protocol gives it is passed on as it is: judging it is the client's part."""
    rewrite = _REWRITES.get(method)
    if rewrite is None or not prefix or b'"uri"' not in bytes(result):
        return result
    try:
        members = jsonrpc.decode_envelope(result)
        rewrite(members, prefix)
    except (jsonrpc.DecodeError, KeyError):
        return result
    return Raw(jsonrpc.encode(members))


def _each(members: dict[str, Raw], name: str, change: Rewrite, prefix: str) -> None:
    """Apply ``change`` to every object of a list member."""
    if name not in members:
        return
    items: list[Raw] = []
    for raw in jsonrpc.decode_items(members[name]):
        try:
            item = jsonrpc.decode_envelope(raw)
            change(item, prefix)
            items.append(Raw(jsonrpc.encode(item)))
        except (jsonrpc.DecodeError, KeyError):
            items.append(raw)
    members[name] = Raw(jsonrpc.encode(items))


def _own_uri(item: dict[str, Raw], prefix: str) -> None:
    item["uri"] = Raw(jsonrpc.encode(public_uri(prefix, jsonrpc.decode_str(item["uri"]))))


def _block(item: dict[str, Raw], prefix: str) -> None:
    """A content block: ``resource_link`` has a uri, ``resource`` embeds contents that have one."""
    kind = jsonrpc.decode_str(item["type"])
    if kind == "resource_link":
        _own_uri(item, prefix)
    elif kind == "resource":
        resource = jsonrpc.decode_envelope(item["resource"])
        _own_uri(resource, prefix)
        item["resource"] = Raw(jsonrpc.encode(resource))


def _message(item: dict[str, Raw], prefix: str) -> None:
    content = item["content"]
    if bytes(content).lstrip().startswith(b"["):
        _each(item, "content", _block, prefix)
    else:
        block = jsonrpc.decode_envelope(content)
        _block(block, prefix)
        item["content"] = Raw(jsonrpc.encode(block))


_REWRITES: Final[dict[str, Rewrite]] = {
    "tools/call": lambda result, prefix: _each(result, "content", _block, prefix),
    "resources/read": lambda result, prefix: _each(result, "contents", _own_uri, prefix),
    "prompts/get": lambda result, prefix: _each(result, "messages", _message, prefix),
}
