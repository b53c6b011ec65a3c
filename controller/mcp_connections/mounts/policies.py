"""Policies of a resource in the form that a proxy acts on: seconds for durations, defaults filled in."""

from __future__ import annotations

from collections.abc import Iterator

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.policy import RateLimit as ApiRateLimit
from mcp_connections.mounts.spec import CircuitBreaker, MountSpec, RateLimit, RequestPolicy, Retry, SessionLimits


def request_policy(connection: McpConnection) -> RequestPolicy:
    """What applies to every request that is relayed to the connection's backend."""
    policy = connection.spec.policy
    breaker, retry = policy.circuit_breaker, policy.retry
    return RequestPolicy(
        max_concurrency=policy.max_concurrency,
        rate_limit=rate_limit(policy.rate_limit),
        circuit_breaker=CircuitBreaker(
            consecutive_failures=breaker.consecutive_failures, open_for=breaker.open_for.seconds
        )
        if breaker
        else None,
        retry=Retry(
            max_attempts=retry.max_attempts, backoff=retry.backoff.seconds, max_backoff=retry.max_backoff.seconds
        )
        if retry
        else None,
    )


def rate_limit(limit: ApiRateLimit | None) -> RateLimit | None:
    """A token bucket, if there is to be one."""
    if limit is None:
        return None
    return RateLimit(requests=limit.requests, per=limit.per.seconds, burst=limit.burst or limit.requests)


def session_limits(connection: McpConnection) -> SessionLimits:
    """How many sessions the connection's backend gets, and how long unused ones are kept."""
    session = connection.spec.session
    return SessionLimits(
        idle_timeout=session.idle_timeout.seconds if session.idle_timeout else None, max_sessions=session.max_sessions
    )


def in_words(spec: MountSpec) -> Iterator[str]:
    """Every policy of a mount with its values, defaults filled in; what does not apply is left out."""
    timeouts, policy, session = spec.timeouts, spec.policy, spec.session_limits
    yield f"timeouts: connect {timeouts.connect:g}s, request {timeouts.request:g}s, max {timeouts.max:g}s"
    if policy.max_concurrency is not None:
        yield f"maxConcurrency: {policy.max_concurrency}"
    if limit := policy.rate_limit:
        yield f"rateLimit: {limit.requests} per {limit.per:g}s, burst {limit.burst}"
    if breaker := policy.circuit_breaker:
        yield f"circuitBreaker: {breaker.consecutive_failures} failures in a row, open for {breaker.open_for:g}s"
    if retry := policy.retry:
        yield f"retry: {retry.max_attempts} attempts, backoff {retry.backoff:g}s to {retry.max_backoff:g}s"
    yield f"session: {spec.session}"
    if session.idle_timeout is not None:
        yield f"session.idleTimeout: {session.idle_timeout:g}s"
    if session.max_sessions is not None:
        yield f"session.maxSessions: {session.max_sessions}"
    yield f"catalog.removalGrace: {spec.catalog.removal_grace:g}s"
    if spec.catalog.pin is not None:
        yield f"catalog.pin: {spec.catalog.pin}"
