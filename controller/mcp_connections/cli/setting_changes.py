"""What a reload changes for the endpoint as a whole, told in words: a door that opens must not open in silence.

Tokens are compared and never told.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from mcp_connections.mounts.spec import Access, DesiredMounts, JwtAccess, RateLimit


def setting_changes(before: DesiredMounts, after: DesiredMounts) -> list[str]:
    """One phrase for each setting of the McpProxy that differs."""
    return [*_access_changes(before.access, after.access), *_other_changes(before, after)]


def _access_changes(before: Access, after: Access) -> Iterator[str]:
    if before.method != after.method:
        yield f"auth {before.method} is now {after.method}: {_demand(after)}"
    elif before.bearer_token != after.bearer_token:
        yield f"auth {after.method}: the token changed"
    elif before.jwt and after.jwt:
        for field in JwtAccess.model_fields:
            yield from _change(f"auth jwt: {to_camel(field)}", getattr(before.jwt, field), getattr(after.jwt, field))
    hosts = [", ".join(access.allowed_hosts) or "unset" for access in (before, after)]
    if hosts[0] != hosts[1]:
        yield f"allowedHosts {hosts[0]} is now {hosts[1]}"


def _demand(access: Access) -> str:
    if access.jwt is not None:
        return f"clients need a token of {access.jwt.issuer}"
    return "clients need the token" if access.method == "bearer" else "clients need no token"


def _other_changes(before: DesiredMounts, after: DesiredMounts) -> Iterator[str]:
    yield from _change("separator", before.separator, after.separator)
    yield from _change("startPolicy", before.start_policy, after.start_policy)
    if before.drain_timeout != after.drain_timeout:
        yield f"drainTimeout {before.drain_timeout:g} s is now {after.drain_timeout:g} s"
    yield from _change(
        "limits: requestBody (bytes)", before.client_limits.request_bytes, after.client_limits.request_bytes
    )
    yield from _change("limits: sessions", before.client_limits.sessions, after.client_limits.sessions)
    yield from _change("audit: calls", before.audit_calls, after.audit_calls)
    if before.client_rate_limit != after.client_rate_limit:
        yield f"rateLimit {_limit(before.client_rate_limit)} is now {_limit(after.client_rate_limit)}"


def _change(name: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        yield f"{name} {before!r} is now {after!r}"


def _limit(limit: RateLimit | None) -> str:
    return "none" if limit is None else f"{limit.requests} per {limit.per:g} s, {limit.burst} at once"
