"""Acceptance: may this connection be mounted? A chain of small checks over one ``Input``, the first failure wins.

What is wrong with the resource itself comes before what is missing around it, and clashes with others come last,
because only a connection that could be mounted can take a prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy, StdioPolicy
from mcp_connections.api.reasons import ProxyReason, Reason
from mcp_connections.mounts.candidates import Context, InvalidConnection, connection_key
from mcp_connections.mounts.prefixes import PrefixClaim, PrefixTable
from mcp_connections.mounts.secrets import SecretData, references
from mcp_connections.mounts.server import resolve_server
from mcp_connections.mounts.spec import Rejection
from mcp_connections.mounts.values import UnusableValue, header_value


@dataclass(frozen=True, kw_only=True)
class Input:
    """All that is known when one connection is judged."""

    connection: McpConnection
    prefix: str
    """Declared or derived."""
    proxy: McpProxy | None
    secret_data: SecretData = field(repr=False)
    older: PrefixTable
    """The prefixes of the older connections that were accepted."""
    context: Context

    def reject(self, reason: Reason, message: str) -> Rejection:
        """A rejection of this connection."""
        return Rejection(connection=connection_key(self.connection), reason=reason.value, message=message)


Check = Callable[[Input], Rejection | None]


def rejection_of(facts: Input) -> Rejection | None:
    """Why the connection is not accepted, or None. Reasons are those of the condition Accepted."""
    return next((rejection for check in CHECKS if (rejection := check(facts))), None)


def invalid_spec(candidate: InvalidConnection) -> Rejection:
    """The rejection of a resource that could not even be read."""
    message = f"{candidate.message}. Correct the manifest and apply it again."
    return Rejection(connection=candidate.connection, reason=Reason.INVALID_SPEC.value, message=message)


def proxy_exists(facts: Input) -> Rejection | None:
    """In a cluster the proxy has to exist. A folder without an McpProxy has one with default settings."""
    wanted, namespace = facts.connection.spec.proxy_ref.name, facts.connection.metadata.namespace
    if facts.context == "Folder":
        name = facts.proxy.metadata.name if facts.proxy else "default"
        if wanted == name:
            return None
        message = f"spec.proxyRef.name is {wanted!r}, and the folder's only McpProxy is {name!r}. Remove spec.proxyRef."
        return facts.reject(Reason.PROXY_NOT_FOUND, message)
    if facts.proxy is not None:
        return None
    message = (
        f"The McpProxy {namespace}/{wanted}, which spec.proxyRef names, does not exist. Create it or correct the name."
    )
    return facts.reject(Reason.PROXY_NOT_FOUND, message)


def stdio_is_allowed(facts: Input) -> Rejection | None:
    """In a cluster, running commands has to be allowed by the owner of the proxy. A folder's owner is its only user, so
    that it is allowed there unless the McpProxy says false in so many words."""
    policy = facts.proxy.spec.stdio if facts.proxy else StdioPolicy()
    unset = "allowed" not in policy.model_fields_set
    allowed = policy.allowed or (facts.context == "Folder" and unset)
    if allowed or facts.connection.spec.transport.stdio is None:
        return None
    proxy = f"{facts.connection.metadata.namespace}/{facts.connection.spec.proxy_ref.name}"
    message = (
        f"spec.transport.stdio runs a command, and the McpProxy {proxy} does not allow that. Set spec.stdio.allowed to "
        "true there, or use a transport by URL."
    )
    return facts.reject(Reason.STDIO_NOT_ALLOWED, message)


def references_resolve(facts: Input) -> Rejection | None:
    """Every referenced value exists and fits the place it goes to."""
    try:
        resolve_server(facts.connection, facts.secret_data)
    except UnusableValue as unusable:
        return facts.reject(unusable.reason, str(unusable))
    return None


def prefix_is_free(facts: Input) -> Rejection | None:
    """No older connection has this prefix or one that is ambiguous beside it."""
    return facts.older.conflict(PrefixClaim(connection=connection_key(facts.connection), prefix=facts.prefix))


CHECKS: tuple[Check, ...] = (
    proxy_exists,
    stdio_is_allowed,
    references_resolve,
    prefix_is_free,
)


@dataclass(frozen=True, kw_only=True)
class ProxyRejection:
    """Why an McpProxy is not accepted."""

    reason: ProxyReason
    message: str


def proxy_rejection(proxy: McpProxy, secret_data: SecretData) -> ProxyRejection | None:
    """Why the proxy is not accepted, or None."""
    for use in references(proxy):
        try:
            header_value(use, secret_data)
        except UnusableValue as unusable:
            return ProxyRejection(reason=ProxyReason(unusable.reason.value), message=str(unusable))
    return None
