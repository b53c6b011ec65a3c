"""Desired mounts: everything one proxy should serve, from its resources and the data they refer to."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import Limits, McpProxy, McpProxySpec
from mcp_connections.mounts.acceptance import Input, invalid_spec, rejection_of
from mcp_connections.mounts.access import access_of, allow_rules
from mcp_connections.mounts.candidates import (
    Candidate,
    Context,
    InvalidConnection,
    connection_key,
    is_going,
    oldest_first,
    resolved_prefixes,
)
from mcp_connections.mounts.fingerprint import fingerprint
from mcp_connections.mounts.policies import rate_limit, request_policy, session_limits
from mcp_connections.mounts.prefixes import PrefixClaim, PrefixTable
from mcp_connections.mounts.secrets import SecretData
from mcp_connections.mounts.server import resolve_server
from mcp_connections.mounts.spec import (
    Access,
    BackendLimits,
    CatalogPolicy,
    ClientLimits,
    ConnectionKey,
    DesiredMounts,
    MountSpec,
    Rejection,
    Selection,
    Timeouts,
    ToolSelection,
)
from mcp_connections.mounts.values import UnusableValue

MIB = 1024 * 1024


def desired_mounts(
    proxy: McpProxy | None, connections: Iterable[Candidate], secret_data: SecretData, context: Context
) -> DesiredMounts:
    """What ``proxy`` should serve of ``connections``, which all refer to it, in whatever order they come.

    Without a proxy its defaults apply in a folder; in a cluster every connection is rejected. A disabled connection
    is not checked: it holds no prefix and needs no Secret until it is enabled. One that is being deleted is left out.
    """
    settings = proxy.spec if proxy else McpProxySpec()
    ordered = oldest_first((each for each in connections if not is_going(each)), context)
    prefixes = resolved_prefixes(ordered)
    granted = PrefixTable(settings.separator)
    mounts: list[MountSpec] = []
    disabled: list[ConnectionKey] = []
    rejected: list[Rejection] = []
    for candidate in ordered:
        key = connection_key(candidate)
        if isinstance(candidate, InvalidConnection):
            rejected.append(invalid_spec(candidate))
            continue
        if not candidate.spec.enabled:
            disabled.append(key)
            continue
        prefix = prefixes[key]
        facts = Input(
            connection=candidate,
            prefix=prefix,
            proxy=proxy,
            secret_data=secret_data,
            older=granted,
            context=context,
        )
        if rejection := rejection_of(facts):
            rejected.append(rejection)
            continue
        granted.grant(PrefixClaim(connection=key, prefix=prefix))
        mounts.append(mount_spec(candidate, prefix, secret_data, settings.limits))
    return DesiredMounts(
        separator=settings.separator,
        start_policy=settings.start_policy,
        drain_timeout=settings.drain_timeout.seconds,
        access=_access(proxy, secret_data),
        client_limits=ClientLimits(
            request_bytes=settings.limits.request_body_mib * MIB, sessions=settings.limits.sessions
        ),
        client_rate_limit=rate_limit(settings.rate_limit),
        audit_calls=settings.audit.calls,
        mounts=tuple(mounts),
        disabled=tuple(disabled),
        rejected=tuple(rejected),
    )


def _access(proxy: McpProxy | None, secret_data: SecretData) -> Access:
    if proxy is None:
        return Access()
    try:
        return access_of(proxy, secret_data)
    except UnusableValue:
        # The proxy is not accepted for this reason; should it be mounted all the same, nobody is let in.
        return Access(method="bearer", allowed_hosts=proxy.spec.allowed_hosts)


def mount_spec(
    connection: McpConnection, prefix: str, secret_data: SecretData, limits: Limits | None = None
) -> MountSpec:
    """The mount of an accepted connection. Raises UnusableValue where a reference does not resolve."""
    spec = connection.spec
    timeouts = spec.policy.timeouts
    limits = limits or Limits()
    return MountSpec(
        connection=connection_key(connection),
        fingerprint=fingerprint(connection, prefix, secret_data),
        prefix=prefix,
        server=resolve_server(connection, secret_data),
        account=spec.account,
        metadata=spec.metadata,
        timeouts=Timeouts(connect=timeouts.connect.seconds, request=timeouts.request.seconds, max=timeouts.max.seconds),
        session=spec.session.mode,
        catalog=CatalogPolicy(
            refresh_interval=spec.catalog.refresh_interval.seconds,
            removal_grace=spec.catalog.removal_grace.seconds,
            pin=spec.catalog.pin,
        ),
        tools=ToolSelection(include=spec.tools.include, exclude=spec.tools.exclude, rename=spec.tools.rename),
        resources=Selection(include=spec.resources.include, exclude=spec.resources.exclude),
        prompts=Selection(include=spec.prompts.include, exclude=spec.prompts.exclude),
        limits=BackendLimits(
            message_bytes=limits.backend_message_mib * MIB, list_pages=limits.list_pages, list_items=limits.list_items
        ),
        allow=allow_rules(connection),
        policy=request_policy(connection),
        session_limits=session_limits(connection),
    )
