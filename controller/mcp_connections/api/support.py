"""Fields that the resources have and this version does not act on.

They are refused with Accepted=False, reason NotImplemented, never silently ignored. When a field comes to life its
line is removed here and nowhere else.
"""

from __future__ import annotations

from pydantic import BaseModel

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy

CONNECTION_FIELDS = (
    "spec.auth.oauthClientCredentials",
    "spec.auth.forwardHeaders",
)

PROXY_FIELDS: tuple[str, ...] = ()


def unsupported_fields(connection: McpConnection) -> list[str]:
    """Paths of the fields that the connection sets, to something else than the default, and that have no effect yet."""
    return [path for path in CONNECTION_FIELDS if _is_set(connection, path)]


def unsupported_proxy_fields(proxy: McpProxy) -> list[str]:
    """As unsupported_fields, for an McpProxy."""
    return [path for path in PROXY_FIELDS if _is_set(proxy, path)]


def _is_set(model: BaseModel, path: str) -> bool:
    owner: BaseModel | None = model
    *parents, last = path.split(".")
    for step in parents:
        owner = getattr(owner, _attribute(owner, step)) if owner is not None else None
    if owner is None:
        return False
    name = _attribute(owner, last)
    field = type(owner).model_fields[name]
    return bool(getattr(owner, name) != field.get_default(call_default_factory=True))


def _attribute(model: BaseModel, alias: str) -> str:
    return next(name for name, field in type(model).model_fields.items() if (field.alias or name) == alias)
