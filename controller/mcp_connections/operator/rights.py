"""What the operator may have to do, and whether it may: said at the start, by name, before something fails for it.

The API server answers a request that is not allowed with 403, and then says what was not allowed. But not every right
is used at once, and a watch that is refused is a change that is noticed late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mcp_connections.operator.cluster import (
    CONFIG_MAP,
    CONNECTION,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    PROXY,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Cluster,
    ClusterError,
    Kind,
)

log = logging.getLogger(__name__)

PARALLEL = 8
"""Questions to the API server at once."""


class Right(NamedTuple):
    """One verb on one resource, as a rule of a Role grants it."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def _rights(kind: Kind, *verbs: str, subresource: str = "") -> Iterable[Right]:
    group = kind.api_version.rpartition("/")[0]
    return (Right(group, kind.plural + subresource, verb) for verb in verbs)


NEEDED: tuple[Right, ...] = (
    *_rights(CONNECTION, "get", "list", "watch"),
    *_rights(PROXY, "get", "list", "watch"),
    *_rights(CONNECTION, "patch", subresource="/status"),
    *_rights(PROXY, "patch", subresource="/status"),
    *_rights(SECRET, "get", "list", "watch", "create", "patch", "delete"),
    *_rights(DEPLOYMENT, "get", "list", "watch", "create", "patch", "delete"),
    *_rights(SERVICE, "get", "list", "create", "patch", "delete"),
    *_rights(SERVICE_ACCOUNT, "get", "list", "create", "patch", "delete"),
    *_rights(NETWORK_POLICY, "get", "list", "create", "patch", "delete"),
    *_rights(CONFIG_MAP, "get", "list", "watch"),
    *_rights(POD, "list", "watch"),
    *_rights(EVENT, "create", "patch"),
)
"""In every namespace that is served. What it takes to make the default McpProxy is about that one and comes on top."""


async def missing(cluster: Cluster, rights: Sequence[Right], namespace: str | None) -> list[Right]:
    """Those of ``rights`` that the operator lacks in ``namespace``; with None, in all namespaces at once.

    Raises ClusterError.
    """
    slots = asyncio.Semaphore(PARALLEL)

    async def may(right: Right) -> bool:
        async with slots:
            return await cluster.may(right.verb, right.group, right.resource, namespace)

    allowed = await asyncio.gather(*map(may, rights))
    return [right for right, is_allowed in zip(rights, allowed, strict=True) if not is_allowed]


async def report_missing(cluster: Cluster, rights: Sequence[Right], namespaces: Sequence[str | None]) -> None:
    """Log each right that is missing, and what to do about it."""
    for namespace in namespaces:
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        try:
            for right in await missing(cluster, rights, namespace):
                log.error(
                    "The operator lacks a right %s: %s. Grant it to the operator's service account; the Role of the "
                    "Helm chart has it.",
                    where,
                    right,
                )
        except ClusterError as error:
            log.warning("Whether the operator has all rights %s is not known: %s", where, error)
