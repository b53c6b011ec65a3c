"""Reads everything that one pass decides upon: the proxy, its connections, and the data that they refer to."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mcp_connections.api.connection import McpConnection, ProxyRef
from mcp_connections.api.meta import ObjectMeta
from mcp_connections.api.parsing import InvalidManifest, parse_connection, parse_proxy
from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.candidates import Candidate, InvalidConnection
from mcp_connections.mounts.secrets import SecretData, proxy_secret_refs, secret_refs
from mcp_connections.mounts.spec import ConnectionKey
from mcp_connections.operator.cluster import CONFIG_MAP, CONNECTION, PROXY, SECRET, Cluster, Kind, Object
from mcp_connections.operator.references import Owner, References
from mcp_connections.operator.trigger import ProxyKey

IGNORED_SECRETS = "type!=helm.sh/release.v1"
"""Field selector. Helm keeps whole releases in Secrets: large, many, and never referred to."""
MAX_GETS = 16
"""Secrets read one by one. For more a LIST is cheaper, though it brings those nobody refers to."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection as it was read, and as JSON with its live status."""

    candidate: Candidate
    live: Object
    owners: frozenset[Owner] = frozenset()
    """What it refers to."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything read in one go."""

    key: ProxyKey
    proxy: McpProxy | None
    """None where there is none. One that cannot be read is stood in for by one with default settings."""
    proxy_live: Object | None
    """The McpProxy as JSON with its live status."""
    proxy_error: str | None
    """Why the McpProxy cannot be read, naming each field. Such a one is not to be put in force."""
    connections: tuple[Connection, ...]
    secret_data: SecretData

    @property
    def is_nothing(self) -> bool:
        """Neither the proxy nor a connection that refers to it exists."""
        return self.proxy_live is None and not self.connections

    @property
    def is_deleting(self) -> bool:
        """The McpProxy is on its way out: what it owns is left to the garbage collector."""
        return bool(self.proxy_live and self.proxy_live["metadata"].get("deletionTimestamp"))


async def gather(cluster: Cluster, key: ProxyKey, references: References, before: Facts | None = None) -> Facts:
    """Read all that concerns the proxy ``key``. Raises ClusterError.

    A candidate that has not changed since ``before`` is the same object as there, so that nothing need be worked out
    from it anew.
    """
    proxy_live, listed = await asyncio.gather(
        cluster.get(PROXY, key.namespace, key.name),
        cluster.list_all(CONNECTION, key.namespace, field_selector=f"spec.proxyRef.name={key.name}"),
    )
    known = {each.live["metadata"]["uid"]: each for each in before.connections} if before is not None else {}
    connections = tuple(_connection(live, known.get(live["metadata"]["uid"])) for live in listed)
    proxy, proxy_error = _read_proxy(proxy_live)
    owners = {owner for each in connections for owner in each.owners}
    if proxy is not None:
        owners |= {ref.owner for ref in proxy_secret_refs(proxy)}
    # Known before the data is read: a change after that is an event that finds its way here.
    references.replace(key, owners)
    return Facts(
        key=key,
        proxy=proxy,
        proxy_live=proxy_live,
        proxy_error=proxy_error,
        connections=connections,
        secret_data=await read_data(cluster, key.namespace, owners),
    )


def _connection(live: Object, before: Connection | None) -> Connection:
    if before is not None and _declared(live) == _declared(before.live):
        return replace(before, live=live)
    candidate = candidate_of(live)
    owners = frozenset(ref.owner for ref in _refs(candidate))
    return Connection(candidate=candidate, live=live, owners=owners)


def _declared(live: Object) -> Object:
    """An object without what changes with its status."""
    metadata = {name: live["metadata"][name] for name in live["metadata"].keys() - {"resourceVersion", "managedFields"}}
    return {name: live[name] for name in live.keys() - {"metadata", "status"}} | {"metadata": metadata}


def proxy_key(connection: Mapping[str, Any]) -> ProxyKey:
    """The proxy that an McpConnection, as JSON, refers to."""
    reference = (connection.get("spec") or {}).get("proxyRef") or {}
    return ProxyKey(connection["metadata"]["namespace"], str(reference.get("name") or ProxyRef().name))


def candidate_of(live: Object) -> Candidate:
    """The connection that the API server holds, valid or not."""
    try:
        return parse_connection(live, strict=False)
    except InvalidManifest as error:
        metadata = live["metadata"]
        return InvalidConnection(
            connection=ConnectionKey(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]),
            message=str(error),
            created=datetime.fromisoformat(metadata["creationTimestamp"]),
            generation=int(metadata.get("generation") or 0),
        )


async def read_data(cluster: Cluster, namespace: str, owners: Iterable[Owner]) -> SecretData:
    """Data of the Secrets and ConfigMaps ``owners``, those absent that do not exist. Raises ClusterError."""
    wanted = sorted(set(owners))
    secrets = [name for kind, _, name in wanted if kind == "Secret"]
    config_maps = [name for kind, _, name in wanted if kind == "ConfigMap"]
    found = await asyncio.gather(
        _objects(cluster, SECRET, namespace, secrets, IGNORED_SECRETS),
        _objects(cluster, CONFIG_MAP, namespace, config_maps, ""),
    )
    data: dict[tuple[str, str, str], Mapping[str, bytes]] = {}
    for kind, decode, objects in (("Secret", _secret_data, found[0]), ("ConfigMap", _config_map_data, found[1])):
        data |= {(kind, namespace, obj["metadata"]["name"]): decode(obj) for obj in objects}
    return data


async def _objects(cluster: Cluster, kind: Kind, namespace: str, names: list[str], field_selector: str) -> list[Object]:
    if len(names) > MAX_GETS:
        listed = await cluster.list_all(kind, namespace, field_selector=field_selector)
        return [obj for obj in listed if obj["metadata"]["name"] in set(names)]
    got = await asyncio.gather(*(cluster.get(kind, namespace, name) for name in names))
    return [obj for obj in got if obj is not None]


def _secret_data(secret: Object) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _config_map_data(config_map: Object) -> dict[str, bytes]:
    text: dict[str, Any] = config_map.get("data") or {}
    binary: dict[str, Any] = config_map.get("binaryData") or {}
    return {key: base64.b64decode(value) for key, value in binary.items()} | {
        key: value.encode() for key, value in text.items()
    }


def _refs(candidate: Candidate) -> Iterable[Any]:
    return secret_refs(candidate) if isinstance(candidate, McpConnection) else ()


def _read_proxy(live: Object | None) -> tuple[McpProxy | None, str | None]:
    if live is None:
        return None, None
    try:
        return parse_proxy(live, strict=False), None
    except InvalidManifest as error:
        known = {name: live["metadata"].get(name) for name in ("name", "namespace", "uid", "generation")}
        stand_in = McpProxy(metadata=ObjectMeta.model_validate(known))
        return stand_in, f"{error}. Correct the manifest and apply it again."
