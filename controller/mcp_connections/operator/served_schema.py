"""Whether the cluster's definitions are as new as the operator, and what to leave out of statuses while they are not.

An API server drops fields that its definition does not know, without a word. So a status would differ from what was
meant for ever, and be written again and again; and a user's setting would have no effect and say nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_connections.api.crd import connection_crd, proxy_crd
from mcp_connections.api.meta import API_VERSION
from mcp_connections.operator.cluster import CONNECTION, PROXY, Cluster, ClusterError, Kind

log = logging.getLogger(__name__)

Schema = Mapping[str, Any]

_OWN: dict[str, Schema] = {
    kind.kind: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for kind, crd in ((CONNECTION, connection_crd()), (PROXY, proxy_crd()))
}
_NAMED = 5
"""Fields that the log names of each kind."""


class ServedSchemas:
    """What the API server knows of our resources. Until that was read, everything is taken to be known."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.version = ""
        """Of the definitions as they were read last."""
        self._served: dict[str, Schema] = {}
        self._told: dict[str, list[str]] = {}

    async def refresh(self) -> None:
        """Read the definitions if they have changed, and log which fields they lack. Raises ClusterError."""
        version = await self._cluster.schema_version(API_VERSION)
        if version == self.version:
            return
        document = await self._cluster.schema(version) if version else {}
        self._served = {kind: schema for kind, schema in _kinds(document) if kind in _OWN}
        self.version = version
        for kind in (CONNECTION, PROXY):
            self._tell(kind)

    async def try_refresh(self) -> None:
        """The same, where it matters little whether it succeeds."""
        try:
            await self.refresh()
        except ClusterError as error:
            log.warning("Whether the CRDs are as new as this operator is not known: %s", error)

    def known(self, kind: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """``status`` without what the definition of ``kind`` does not know."""
        schema = self._served.get(kind)
        if schema is None or not self._told.get(kind):
            return dict(status)
        pruned: dict[str, Any] = _pruned(status, schema.get("properties", {}).get("status", {}))
        return pruned

    def missing(self, kind: str) -> list[str]:
        """Paths of the fields that the definition lacks, the outermost of each."""
        served = self._served.get(kind)
        return [] if served is None else list(_lacking(_OWN[kind], served, ""))

    def _tell(self, kind: Kind) -> None:
        missing = self.missing(kind.kind)
        before, self._told[kind.kind] = self._told.get(kind.kind, []), missing
        if missing == before:
            return
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            log.error(
                "The CRD of %s is older than this operator and does not know %s%s: users who set them are not heard, "
                "and statuses are written without them. Apply the CRDs of this version: mcp-connections crd | kubectl "
                "apply --server-side -f -",
                kind.kind,
                ", ".join(missing[:_NAMED]),
                more,
            )
        else:
            log.info("The CRD of %s knows every field of this operator now", kind.kind)


def _kinds(document: Mapping[str, Any]) -> Iterator[tuple[str, Schema]]:
    """The resources of an OpenAPI document (v3), by kind."""
    for schema in document.get("components", {}).get("schemas", {}).values():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            if "properties" in schema and "items" not in schema["properties"]:
                yield each["kind"], schema


def _lacking(own: Schema, served: Schema, path: str) -> Iterator[str]:
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = served.get("properties", {})
    for name, schema in own.get("properties", {}).items():
        if path == "" and name not in ("spec", "status"):
            continue
        inner = f"{path}.{name}" if path else name
        if name not in known:
            yield inner
        else:
            yield from _lacking(schema, known[name], inner)
    for container in ("items", "additionalProperties"):
        if isinstance(own.get(container), Mapping) and isinstance(served.get(container), Mapping):
            yield from _lacking(own[container], served[container], f"{path}[]")


def _pruned(value: Any, schema: Schema) -> Any:
    if isinstance(value, Mapping):
        if "properties" not in schema:
            return dict(value)
        known = schema["properties"]
        return {name: _pruned(member, known[name]) for name, member in value.items() if name in known}
    if isinstance(value, list | tuple):
        return [_pruned(item, schema.get("items", {})) for item in value]
    return value
