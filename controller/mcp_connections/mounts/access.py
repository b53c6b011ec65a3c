"""Who may use an endpoint, and which of its connections, made from what the resources say."""

from __future__ import annotations

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.secrets import FieldRef, SecretData, SecretRef
from mcp_connections.mounts.spec import Access, AllowRule, JwtAccess
from mcp_connections.mounts.values import bearer_token


def access_of(proxy: McpProxy, data: SecretData) -> Access:
    """The access settings of a proxy. Raises UnusableValue where the reference to the token does not resolve."""
    auth, hosts = proxy.spec.auth, proxy.spec.allowed_hosts
    if auth is None:
        return Access(allowed_hosts=hosts)
    if auth.bearer_token_ref is not None:
        named = auth.bearer_token_ref
        ref = SecretRef(namespace=proxy.metadata.namespace, name=named.name, key=named.key)
        token = bearer_token(FieldRef(field="spec.auth.bearerTokenRef", ref=ref), data)
        return Access(method="bearer", bearer_token=token, allowed_hosts=hosts)
    if auth.jwt is not None:
        jwt = JwtAccess(
            issuer=auth.jwt.issuer,
            audience=auth.jwt.audience,
            jwks_uri=auth.jwt.jwks_uri,
            required_scopes=auth.jwt.required_scopes,
        )
        return Access(method="jwt", jwt=jwt, allowed_hosts=hosts)
    return Access(method="none", allowed_hosts=hosts)


def allow_rules(connection: McpConnection) -> tuple[AllowRule, ...]:
    """Who may see and use the connection; empty: everybody who may use the proxy."""
    return tuple(AllowRule(scopes=rule.scopes, claims=rule.claims) for rule in connection.spec.allow)
