"""Brings generated objects to the API server, only those that need it, and takes over nothing that is another's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from mcp_connections.operator.cluster import (
    DEPLOYMENT,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Cluster,
    ClusterError,
    Kind,
    Object,
)
from mcp_connections.operator.labels import connection_of, owner_of

KINDS = {kind.kind: kind for kind in (SECRET, SERVICE_ACCOUNT, SERVICE, NETWORK_POLICY, DEPLOYMENT)}
ATTEMPTS = 5
"""Times an object is deleted anew because it changed between reading and deleting."""

Place = tuple[str, str]
"""Kind and name of an object."""


class Refused(Exception):
    """An object cannot be what a resource asks for. The text says why; trying again will not help."""


class _Applied(NamedTuple):
    digest: str
    resource_version: str


class OwnedObjects:
    """Remembers what it applied last, so that what has not changed since is not even sent.

    The memory is a shortcut only. An operator that has just started sends everything once; server-side apply then
    changes nothing where nothing differs.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._applied: dict[Place, _Applied] = {}

    async def apply(self, body: Object, live: Mapping[Place, Object]) -> None:
        """Apply ``body``, unless it is what is there; ``live`` holds the objects that are. Raises Refused, and
        ClusterError where trying again may help."""
        where, digest = place(body), _digest(body)
        current = live.get(where)
        if current is None:
            await self._check_free(KINDS[body["kind"]], body)
        elif self._applied.get(where) == (digest, current["metadata"]["resourceVersion"]):
            return
        try:
            applied = await self._cluster.apply(KINDS[body["kind"]], body)
        except ClusterError as error:
            if error.is_refusal:
                raise Refused(
                    f"The API server refuses the {where[0]} {where[1]} made for this resource: {error}"
                ) from error
            raise
        self._applied[where] = _Applied(digest, applied["metadata"]["resourceVersion"])

    async def delete(self, obj: Object) -> None:
        """Delete an object, as long as it is still whose it was. Raises ClusterError."""
        kind, metadata, now = KINDS[obj["kind"]], obj["metadata"], obj
        self._applied.pop(place(obj), None)
        for _ in range(ATTEMPTS):
            try:
                await self._cluster.delete(kind, now)
            except ClusterError as error:
                if error.status not in (404, 409):
                    raise
            else:
                return
            found = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
            if found is None or found["metadata"]["uid"] != metadata["uid"] or _whose(found) != _whose(obj):
                return
            now = found
        raise ClusterError(
            f"DELETE {kind.plural} {metadata['namespace']}/{metadata['name']}: it changed {ATTEMPTS} times meanwhile",
            409,
        )

    async def _check_free(self, kind: Kind, body: Object) -> None:
        """Apply would take over whatever has the name already."""
        metadata = body["metadata"]
        found = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
        if found is not None and _owned_by(found) != _owned_by(body):
            raise Refused(
                f"There is a {kind.kind} {metadata['namespace']}/{metadata['name']} already that is not this "
                "operator's: rename it, or give this resource another name"
            )


def place(obj: Object) -> Place:
    """Where an object is within its namespace."""
    return obj["kind"], obj["metadata"]["name"]


def _whose(obj: Object) -> tuple[str | None, str | None]:
    return owner_of(obj), connection_of(obj)


def _owned_by(obj: Object) -> tuple[str | None, str | None]:
    """A bridge is its connection's, whichever proxy that names."""
    connection = connection_of(obj)
    return (None, connection) if connection is not None else (owner_of(obj), None)


def _digest(body: Object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
