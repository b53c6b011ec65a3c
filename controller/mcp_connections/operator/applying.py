"""Brings the objects of one proxy's workload to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.cluster import DEPLOYMENT, SECRET, SERVICE, SERVICE_ACCOUNT, Cluster, Object
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
from mcp_connections.operator.owned_objects import OwnedObjects, Place, Refused, place
from mcp_connections.operator.workload import workload


class Applier:
    """Applies what one McpProxy asks for."""

    def __init__(self, cluster: Cluster, default_image: str, *, make_token: Callable[[], str] = new_token) -> None:
        self._cluster = cluster
        self._default_image = default_image
        self._make_token = make_token
        self._objects = OwnedObjects(cluster)

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
            await self._objects.apply(body, live)
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
        return {place(obj): obj for obj in found if owner_of(obj) == name}
