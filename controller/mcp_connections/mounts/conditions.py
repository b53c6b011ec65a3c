"""Status bodies: from what was desired and what all replicas report to what the resources say.

Computing a body again from the same observation and the body itself gives the same body, so that an idle system
writes nothing. Bodies are built through the API models: what those accept, the API server accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mcp_connections.api.connection_status import CatalogCounts, McpConnectionStatus
from mcp_connections.api.proxy import ConnectionCounts, McpProxy, McpProxyStatus
from mcp_connections.api.reasons import ConditionType, ProxyConditionType
from mcp_connections.mounts.acceptance import ProxyRejection
from mcp_connections.mounts.candidates import Candidate, InvalidConnection, connection_key, is_going
from mcp_connections.mounts.mount_status import mount_members
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.proxy_verdicts import Statuses, available, is_true, programmed, proxy_accepted
from mcp_connections.mounts.report import RegistryReport
from mcp_connections.mounts.retirement import retired_mounts
from mcp_connections.mounts.spec import DesiredMounts, MountSpec
from mcp_connections.mounts.verdicts import accepted, conditions, mounted, ready, terminating

_StatusT = TypeVar("_StatusT", bound=BaseModel)


def connection_status(
    connection: Candidate,
    desired: DesiredMounts,
    reports: Sequence[RegistryReport | None],
    previous_status: Mapping[str, Any] | None,
    now: datetime,
) -> dict[str, Any]:
    """The whole status of one connection, Ready first among its conditions.

    ``reports`` has an entry for each replica of the proxy, None where it did not answer. For many connections of
    one proxy make one Observation and call ``connection_status_in``.
    """
    return connection_status_in(Observation(desired, reports), connection, previous_status, now)


def connection_status_in(
    seen: Observation, connection: Candidate, previous_status: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """As ``connection_status``."""
    key = connection_key(connection)
    generation = connection.generation if isinstance(connection, InvalidConnection) else connection.metadata.generation
    previous = _read(McpConnectionStatus, previous_status)
    if is_going(connection):
        verdicts = terminating(key, seen)
    else:
        mounting = mounted(key, seen, was_mounted=_was_mounted(previous, seen.specs.get(key)))
        verdicts = (
            (ConditionType.READY, ready(key, seen, mounting)),
            (ConditionType.ACCEPTED, accepted(key, seen)),
            (ConditionType.MOUNTED, mounting),
        )
    status = McpConnectionStatus(
        observed_generation=generation,
        conditions=conditions(verdicts, previous.conditions, generation, now),
        retired_mounts=retired_mounts(seen.retired.get(key, ()), previous.retired_mounts, complete=seen.is_complete),
        **mount_members(key, seen, previous),
    )
    return status.dump()


def proxy_status(
    proxy: McpProxy,
    desired: DesiredMounts,
    reports: Sequence[RegistryReport | None],
    statuses: Statuses,
    previous_status: Mapping[str, Any] | None,
    now: datetime,
    *,
    endpoint: str | None = None,
    ready_pods: int | None = None,
    rejection: ProxyRejection | None = None,
) -> dict[str, Any]:
    """The whole status of a proxy, Available first among its conditions.

    ``statuses`` are the status bodies of all its connections, just computed. ``endpoint`` is the URL of its
    Service. ``ready_pods`` is how many pods Kubernetes calls ready; without it, how many report so themselves.
    """
    seen = Observation(desired, reports)
    generation = proxy.metadata.generation
    previous = _read(McpProxyStatus, previous_status)
    pods = sum(report.ready for report in seen.answers) if ready_pods is None else ready_pods
    verdicts = (
        (ProxyConditionType.AVAILABLE, available(proxy, seen, pods, statuses)),
        (ProxyConditionType.ACCEPTED, proxy_accepted(proxy, rejection)),
        (ProxyConditionType.PROGRAMMED, programmed(seen, rejection)),
    )
    known = {(key.namespace, key.name, key.uid) for key in seen.known}
    status = McpProxyStatus(
        observed_generation=generation,
        conditions=conditions(verdicts, previous.conditions, generation, now),
        endpoint=endpoint,
        replicas=pods,
        connections=ConnectionCounts(
            total=len(statuses),
            mounted=sum(is_true(status, ConditionType.MOUNTED) for status in statuses.values()),
            ready=sum(is_true(status, ConditionType.READY) for status in statuses.values()),
        ),
        retired_mounts=retired_mounts(
            [each for key, mounts in seen.retired.items() if key not in seen.known for each in mounts],
            [
                each
                for each in previous.retired_mounts
                if (each.connection.namespace, each.connection.name, each.connection.uid) not in known
            ],
            complete=seen.is_complete,
        ),
        catalog=_catalog_counts(seen) if seen.replicas else previous.catalog,
    )
    return status.dump()


def _was_mounted(previous: McpConnectionStatus, spec: MountSpec | None) -> bool:
    if spec is None or previous.mount is None or previous.mount.fingerprint != spec.fingerprint:
        return False
    return any(each.type == ConditionType.MOUNTED and each.status == "True" for each in previous.conditions)


def _catalog_counts(seen: Observation) -> CatalogCounts:
    catalogs = [mount.catalog for mount in seen.replicas[0].mounts]
    return CatalogCounts(
        tools=sum(catalog.tools for catalog in catalogs),
        resources=sum(catalog.resources for catalog in catalogs),
        resource_templates=sum(catalog.resource_templates for catalog in catalogs),
        prompts=sum(catalog.prompts for catalog in catalogs),
    )


def _read(model: type[_StatusT], previous: Mapping[str, Any] | None) -> _StatusT:
    """An earlier status as far as it can be read: one written by another version is replaced, not an error."""
    try:
        return model.model_validate(previous or {})
    except ValidationError:
        return model()
