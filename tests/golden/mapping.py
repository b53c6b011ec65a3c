"""How names and URIs differ between a backend and its clients, written down a second time.

Nothing of the code under test is used here: the table in ``docs`` is the source of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

SEPARATOR = "_"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)


def public_uri(prefix: str, uri: str) -> str:
    """What clients call a backend's URI or URI template."""
    if not prefix:
        return uri
    match = _SCHEME.match(uri)
    if match is None or match[1].lower() in ("http", "https", "mcp-connection"):
        return f"mcp-connection:{prefix}:{uri}"
    scheme, rest = match.groups()
    if rest.startswith("///"):
        return f"{scheme}:///{prefix}/{rest[3:]}"
    return f"{scheme}://{prefix}/{rest[2:]}" if rest.startswith("//") else f"{scheme}:{prefix}:{rest}"


def public_name(prefix: str, name: str) -> str:
    """What clients call a backend's tool or prompt, unless the name needs an alias."""
    return f"{prefix}{SEPARATOR}{name}" if prefix else name


def needs_alias(full: str) -> bool:
    """Whether a full public name cannot be served as it is."""
    return len(full) > 128 or any(c.isspace() or not c.isprintable() for c in full)


def public_block(prefix: str, block: Any) -> Any:
    """A content block."""
    if not isinstance(block, dict):
        return block
    if block.get("type") == "resource_link" and isinstance(block.get("uri"), str):
        return {**block, "uri": public_uri(prefix, block["uri"])}
    if block.get("type") == "resource" and isinstance(block.get("resource"), dict):
        resource = block["resource"]
        if isinstance(resource.get("uri"), str):
            return {**block, "resource": {**resource, "uri": public_uri(prefix, resource["uri"])}}
    return block


def _each(name: str, change: Callable[[str, Any], Any]) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    def apply(prefix: str, result: dict[str, Any]) -> dict[str, Any]:
        items = result.get(name)
        if not isinstance(items, list):
            return result
        return {**result, name: [change(prefix, item) for item in items]}

    return apply


def _message(prefix: str, message: Any) -> Any:
    if not isinstance(message, dict) or "content" not in message:
        return message
    return {**message, "content": public_block(prefix, message["content"])}


def _contents(prefix: str, contents: Any) -> Any:
    if not isinstance(contents, dict) or not isinstance(contents.get("uri"), str):
        return contents
    return {**contents, "uri": public_uri(prefix, contents["uri"])}


_RESULTS = {
    "tools/call": _each("content", public_block),
    "prompts/get": _each("messages", _message),
    "resources/read": _each("contents", _contents),
}


def public_result(method: str, prefix: str, result: Any) -> Any:
    """A result of ``method``."""
    return _RESULTS[method](prefix, result) if isinstance(result, dict) else result
