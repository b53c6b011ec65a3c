"""Brings the objects of one proxy's workload to the API server, and only those that need it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import NamedTuple

from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.cluster import (
    DEPLOYMENT,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Cluster,
    ClusterError,
    Kind,
    Object,
)
from mcp_connections.operator.labels import owner_of, selector, workload_name
from mcp_connections.operator.mount_secrets import (
    MAX_PARTS,
    TooLarge,
    admin_secret,
    admin_secret_name,
    mount_secrets,
    new_token,
    part_name,
    token_of,
)
from mcp_connections.operator.workload import workload

KINDS = {kind.kind: kind for kind in (SECRET, SERVICE_ACCOUNT, SERVICE, DEPLOYMENT)}

Place = tuple[str, str]
"""Kind and name of an object."""


class Refused(Exception):
    """The workload cannot be what the McpProxy asks for. The text says why; trying again will not help."""


class _Applied(NamedTuple):
    digest: str
    resource_version: str


class Applier:
    """Remembers what it applied last, so that what has not changed since is not even sent.

    The memory is a shortcut only. An operator that has just started sends everything once; server-side apply then
    changes nothing where nothing differs.
    """

    def __init__(self, cluster: Cluster, default_image: str, *, make_token: Callable[[], str] = new_token) -> None:
        self._cluster = cluster
        self._default_image = default_image
        self._make_token = make_token
        self._applied: dict[Place, _Applied] = {}

    async def apply(self, proxy: McpProxy, desired: DesiredMounts) -> str:
        """Apply Secrets, ServiceAccount, Service and Deployment; return the token of the admin port.

        Raises Refused, and ClusterError where trying again may help.
        """
        live = await self._live(proxy)
        name = proxy.metadata.name
        token = token_of(live.get((SECRET.kind, admin_secret_name(name)))) or self._make_token()
        existing = sum((SECRET.kind, part_name(name, part)) in live for part in range(MAX_PARTS))
        try:
            secrets = mount_secrets(proxy, desired, existing=existing)
        except TooLarge as error:
            raise Refused(str(error)) from error
        for body in (admin_secret(proxy, token), *secrets, *workload(proxy, self._default_image)):
            await self._apply_one(body, live)
        return token

    async def _live(self, proxy: McpProxy) -> dict[Place, Object]:
        """The objects of the workload as they are now."""
        namespace, name = proxy.metadata.namespace, proxy.metadata.name
        named = (SERVICE_ACCOUNT, SERVICE, DEPLOYMENT)
        secrets, others = await asyncio.gather(
            self._cluster.list_all(SECRET, namespace, label_selector=selector(name)),
            asyncio.gather(*(self._cluster.get(kind, namespace, workload_name(name)) for kind in named)),
        )
        found = [*secrets, *(obj for obj in others if obj is not None)]
        return {_place(obj): obj for obj in found if owner_of(obj) == name}

    async def _apply_one(self, body: Object, live: dict[Place, Object]) -> None:
        place, digest = _place(body), _digest(body)
        current = live.get(place)
        if current is None:
            await self._check_free(KINDS[body["kind"]], body)
        elif self._applied.get(place) == (digest, current["metadata"]["resourceVersion"]):
            return
        try:
            applied = await self._cluster.apply(KINDS[body["kind"]], body)
        except ClusterError as error:
            if error.is_refusal:
                raise Refused(
                    f"The API server refuses the {place[0]} {place[1]} made for this proxy: {error}"
                ) from error
            raise
        self._applied[place] = _Applied(digest, applied["metadata"]["resourceVersion"])

    async def _check_free(self, kind: Kind, body: Object) -> None:
        """Apply would take over whatever has the name already."""
        metadata = body["metadata"]
        found = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
        if found is not None and owner_of(found) != owner_of(body):
            raise Refused(
                f"There is a {kind.kind} {metadata['namespace']}/{metadata['name']} already that is not this "
                "operator's: rename it, or give the McpProxy another name"
            )


def _place(obj: Object) -> Place:
    return obj["kind"], obj["metadata"]["name"]


def _digest(body: Object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
