"""The fingerprint: one short hash over everything that makes a mount the mount it is.

Two equal fingerprints mean that a running mount can be kept; any difference means a new one. So what a user did not
change must not show (defaults written out, another order of keys, ``300s`` for ``5m``), and what they did change must,
Secret data included. Only fields that differ from their defaults are hashed: a field that a later version adds leaves
the fingerprints of running mounts as they are.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.durations import Duration
from mcp_connections.api.lists import ListMap, ListSet
from mcp_connections.mounts.secrets import SecretData, secret_refs

_LENGTH = 16
_NOT_HASHED = frozenset({"proxy_ref", "prefix"})
"""The proxy is the registry that asks, and the prefix goes in as resolved."""


def fingerprint(connection: McpConnection, prefix: str, data: SecretData) -> str:
    """16 hexadecimal digits of a SHA-256 over key and uid, the whole spec, the resolved prefix and a digest of the
    referenced data. A reference that leads nowhere counts as such."""
    meta, spec = connection.metadata, connection.spec
    document = {
        "connection": [meta.namespace, meta.name, meta.uid],
        "prefix": prefix,
        "spec": _members(spec, skip=_NOT_HASHED),
        "data": secret_digest(connection, data),
    }
    return hashlib.sha256(_canonical(document)).hexdigest()[:_LENGTH]


def secret_digest(connection: McpConnection, data: SecretData) -> str:
    """SHA-256, in hexadecimal, over every referenced key with its value. Each part goes in with its length, so that
    no two sets of data give the same input."""
    digest = hashlib.sha256()
    for ref in sorted(secret_refs(connection)):
        value = data.get(ref.owner, {}).get(ref.key)
        parts = [part.encode() for part in (*ref.owner, ref.key)] + ([value] if value is not None else [])
        digest.update(b"%d;" % len(parts))
        for part in parts:
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


@dataclass(frozen=True, slots=True)
class _Member:
    """How one field of a model is hashed."""

    name: str
    alias: str
    required: bool
    unordered: bool
    default: Any
    """In the form that is hashed."""


def _members(model: BaseModel, *, skip: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The members that differ from their defaults, by their names in manifests."""
    values = model.__dict__
    members = {}
    for member in _fields_of(type(model)):
        if member.name not in skip:
            value = _plain(values[member.name], member.unordered)
            if member.required or value != member.default or type(value) is not type(member.default):
                members[member.alias] = value
    return members


@cache
def _fields_of(model: type[BaseModel]) -> tuple[_Member, ...]:
    """Worked out once for each class of the API: a thousand connections are hashed at every reconcile."""
    members = []
    for name, info in model.model_fields.items():
        unordered = any(isinstance(each, ListMap | ListSet) for each in info.metadata)
        default = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
        members.append(
            _Member(
                name=name,
                alias=info.alias or name,
                required=info.is_required(),
                unordered=unordered,
                default=_plain(default, unordered),
            )
        )
    return tuple(members)


def _plain(value: object, unordered: bool) -> Any:
    match value:
        case None | bool() | int():
            return value
        case Duration():
            return value.seconds
        case BaseModel():
            return _members(value)
        case tuple():
            items = [_plain(item, False) for item in value]
            return sorted(items, key=_as_json) if unordered else items
        case _:
            return value


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
