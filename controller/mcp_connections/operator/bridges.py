"""The bridges of one proxy's stdio connections: applied while they are wanted, deleted once they are not.

A command never runs in the pod of a proxy, which holds everyone's credentials: what the proxy mounts instead is the
bridge of the connection, by its URL and token.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.connection_status import PodStatus
from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.reasons import Reason
from mcp_connections.mounts.candidates import connection_key
from mcp_connections.mounts.fingerprint import secret_digest
from mcp_connections.mounts.secrets import SecretData
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec, Rejection, StdioServer
from mcp_connections.operator.bridge_pods import bridge_pods
from mcp_connections.operator.bridge_workload import Bridge, bridge_url, bridge_workload, token_secret_name
from mcp_connections.operator.cluster import DEPLOYMENT, POD, SECRET, Cluster, Object
from mcp_connections.operator.gather import Facts
from mcp_connections.operator.labels import BRIDGES_SELECTOR, connection_of, owner_of
from mcp_connections.operator.mount_secrets import new_token, token_of
from mcp_connections.operator.owned_objects import KINDS, OwnedObjects, Place, Refused, place

PARALLEL = 8
"""Bridges applied at once."""


@dataclass(frozen=True, kw_only=True)
class Bridged:
    """What becomes of the desired mounts."""

    desired: DesiredMounts
    """Without any command to run."""
    pods: Mapping[ConnectionKey, PodStatus] = field(default_factory=dict)
    refused: Mapping[ConnectionKey, str] = field(default_factory=dict)
    """Why the API server, or who has a name already, keeps a bridge from being made."""


class Bridges:
    """The bridges of the connections of one McpProxy."""

    def __init__(self, cluster: Cluster, default_image: str, *, make_token: Callable[[], str] = new_token) -> None:
        self._cluster = cluster
        self._default_image = default_image
        self._make_token = make_token
        self._objects = OwnedObjects(cluster)
        self._may_exist = True

    async def stage(self, facts: Facts, desired: DesiredMounts, *, in_force: bool) -> Bridged:
        """Bring about what ``desired`` asks for, unless it is not to be put ``in_force``. Raises ClusterError."""
        wanted = {mount.connection for mount in desired.mounts if isinstance(mount.server, StdioServer)}
        if not wanted and not self._may_exist:
            return Bridged(desired=desired)
        live, pods = await self._live(facts.key.namespace)
        ours = [obj for obj in live.values() if _concerns(obj, facts)]
        self._may_exist = bool(ours or wanted)
        connections = {
            key: each.candidate
            for each in facts.connections
            if isinstance(each.candidate, McpConnection) and (key := connection_key(each.candidate)) in wanted
        }
        tokens = {key: self._token(connection, live) for key, connection in connections.items()}
        refused: dict[ConnectionKey, str] = {}
        if in_force:
            assert facts.proxy is not None or not wanted, "without a proxy no connection is accepted"
            if facts.proxy is not None:
                refused = await self._apply(facts.proxy, connections, tokens, facts.secret_data, live)
            names = {key.name for key in connections}
            await self._delete(obj for obj in ours if connection_of(obj) not in names)
        by_name = bridge_pods(pods, [obj for obj in live.values() if obj["kind"] == DEPLOYMENT.kind])
        return Bridged(
            desired=_bridged(desired, connections, tokens, refused),
            pods={key: by_name[key.name] for key in connections if key.name in by_name},
            refused=refused,
        )

    async def _live(self, namespace: str) -> tuple[dict[Place, Object], list[Object]]:
        kinds = (*KINDS.values(), POD)
        *lists, pods = await asyncio.gather(
            *(self._cluster.list_all(kind, namespace, label_selector=BRIDGES_SELECTOR) for kind in kinds)
        )
        return {place(obj): obj for objects in lists for obj in objects if connection_of(obj) is not None}, pods

    def _token(self, connection: McpConnection, live: Mapping[Place, Object]) -> str:
        return token_of(live.get((SECRET.kind, token_secret_name(connection.metadata.name)))) or self._make_token()

    async def _apply(
        self,
        proxy: McpProxy,
        connections: Mapping[ConnectionKey, McpConnection],
        tokens: Mapping[ConnectionKey, str],
        secret_data: SecretData,
        live: Mapping[Place, Object],
    ) -> dict[ConnectionKey, str]:
        """Why bridges were refused. Raises ClusterError once all were tried."""
        slots = asyncio.Semaphore(PARALLEL)

        async def apply(key: ConnectionKey, connection: McpConnection) -> str | None:
            bridge = Bridge(
                connection=connection,
                proxy=proxy,
                token=tokens[key],
                secret_digest=secret_digest(connection, secret_data),
                default_image=self._default_image,
            )
            async with slots:
                try:
                    for body in bridge_workload(bridge):
                        await self._objects.apply(body, live)
                except Refused as error:
                    return str(error)
            return None

        outcomes = await asyncio.gather(
            *(apply(key, connection) for key, connection in connections.items()), return_exceptions=True
        )
        refused = {}
        for key, outcome in zip(connections, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                refused[key] = outcome
        return refused

    async def _delete(self, objects: Iterable[Object]) -> None:
        outcomes = await asyncio.gather(*map(self._objects.delete, objects), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


def _concerns(obj: Object, facts: Facts) -> bool:
    """Whether an object of a bridge is this proxy's to delete: it was made for it, or for a connection that is now its.

    Only what is owned by a connection is; anything else with our labels is somebody's own.
    """
    references = obj["metadata"].get("ownerReferences") or ()
    owners = {each.get("uid") for each in references if each.get("kind") == "McpConnection"}
    if not owners:
        return False
    return owner_of(obj) == facts.key.name or any(
        connection_key(each.candidate).uid in owners for each in facts.connections
    )


def _bridged(
    desired: DesiredMounts,
    connections: Mapping[ConnectionKey, McpConnection],
    tokens: Mapping[ConnectionKey, str],
    refused: Mapping[ConnectionKey, str],
) -> DesiredMounts:
    """The mounts with bridges in place of commands."""
    mounts = tuple(
        _through_bridge(mount, connections[mount.connection], tokens[mount.connection])
        if isinstance(mount.server, StdioServer)
        else mount
        for mount in desired.mounts
        if mount.connection not in refused
    )
    rejected = tuple(
        Rejection(connection=key, reason=Reason.APPLY_FAILED.value, message=message) for key, message in refused.items()
    )
    return desired.model_copy(update={"mounts": mounts, "rejected": (*desired.rejected, *rejected)})


def _through_bridge(mount: MountSpec, connection: McpConnection, token: str) -> MountSpec:
    server = HttpServer(url=bridge_url(connection), headers={"Authorization": f"Bearer {token}"}, bridged=True)
    # A token that had to be made anew has to reach the mount, so it counts as part of what the mount is.
    digest = hashlib.sha256(f"{mount.fingerprint} {token}".encode()).hexdigest()[: len(mount.fingerprint)]
    return mount.model_copy(update={"server": server, "fingerprint": digest})
