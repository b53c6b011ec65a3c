"""The connections of one proxy as candidates for mounting: valid or not, oldest first.

Age decides every clash, so its order is defined once, here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from mcp_connections.api.connection import McpConnection
from mcp_connections.mounts.naming import default_prefix
from mcp_connections.mounts.spec import ConnectionKey

Context = Literal["Cluster", "Folder"]
"""Where the resources come from. A folder has no creation times, no namespaces of its own and one user."""


@dataclass(frozen=True, kw_only=True)
class InvalidConnection:
    """An McpConnection that is there but cannot be read as one. It is rejected as InvalidSpec."""

    connection: ConnectionKey
    message: str
    """What is wrong, naming each field."""
    created: datetime | None = None
    generation: int = 0


Candidate = McpConnection | InvalidConnection


def connection_key(candidate: Candidate) -> ConnectionKey:
    """The identity of a connection."""
    if isinstance(candidate, InvalidConnection):
        return candidate.connection
    meta = candidate.metadata
    return ConnectionKey(namespace=meta.namespace, name=meta.name, uid=meta.uid)


def is_going(candidate: Candidate) -> bool:
    """Whether it is being deleted, and only a finalizer still keeps it."""
    return not isinstance(candidate, InvalidConnection) and candidate.metadata.deletion_timestamp is not None


def oldest_first(candidates: Iterable[Candidate], context: Context) -> list[Candidate]:
    """By creation time, then namespace and name; in a folder by name, then namespace, whatever times it mentions."""
    return sorted(candidates, key=_folder_age if context == "Folder" else _age)


def resolved_prefixes(candidates: Iterable[Candidate]) -> dict[ConnectionKey, str]:
    """The prefix of every valid connection, declared or derived from its name. ``candidates`` come oldest first.

    Derived prefixes are told apart among all connections, disabled and rejected ones too, so that switching one off
    renames nobody else's tools.
    """
    prefixes: dict[ConnectionKey, str] = {}
    derived: set[str] = set()
    for candidate in candidates:
        if isinstance(candidate, InvalidConnection):
            continue
        prefix = candidate.spec.prefix
        if prefix is None:
            prefix = default_prefix(candidate.metadata.namespace, candidate.metadata.name, derived)
            derived.add(prefix)
        prefixes[connection_key(candidate)] = prefix
    return prefixes


def _age(candidate: Candidate) -> tuple[datetime, str, str]:
    created = candidate.created if isinstance(candidate, InvalidConnection) else candidate.metadata.creation_timestamp
    key = connection_key(candidate)
    return created or datetime.max.replace(tzinfo=UTC), key.namespace, key.name


def _folder_age(candidate: Candidate) -> tuple[str, str]:
    key = connection_key(candidate)
    return key.name, key.namespace
