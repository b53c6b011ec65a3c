"""What a connection may cost and how its failures are met: timeouts, retries, limits, circuit breaker."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from mcp_connections.api.durations import PATTERN, Duration, within
from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule, quoted


class Timeouts(ApiModel):
    """How long the proxy waits for the backend."""

    connect: Annotated[Duration, within("1ms", "5m")] = Duration("5s")
    """Longest time to open a connection or start the process."""
    request: Annotated[Duration, within("1ms", "24h")] = Duration("60s")
    """Longest time to wait for an answer. Starts again with every progress notification."""
    max: Annotated[Duration, within("1ms", "24h")] = Duration("10m")
    """Longest time for one request in all, however much progress it reports."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                f"!self.request.matches({quoted(PATTERN)}) || !self.max.matches({quoted(PATTERN)}) || "
                "duration(self.request) <= duration(self.max)"
            ),
            message="must not be longer than max, which is 10m unless set",
            holds=lambda timeouts: timeouts.request.seconds <= timeouts.max.seconds,
            field="request",
        ),
    )


class RetryPolicy(ApiModel):
    """Repeats of a failed request, made only where it provably did not run or the tool is idempotent or read-only."""

    max_attempts: Annotated[StrictInt, Field(ge=1, le=10)] = 1
    """Attempts in all, the first included. 1 means no retry. A budget of a fifth of the requests, and one a second,
    bounds the retries of a connection as a whole."""
    backoff: Annotated[Duration, within("1ms", "1m")] = Duration("200ms")
    """Wait before the first retry. Doubles with every further one."""
    max_backoff: Annotated[Duration, within("1ms", "10m")] = Duration("5s")
    """Longest wait between two attempts."""


class RateLimit(ApiModel):
    """A token bucket. Requests beyond it are refused with an error that says so."""

    requests: Annotated[StrictInt, Field(ge=1, le=1_000_000)]
    """Requests allowed per interval."""
    per: Annotated[Duration, within("1s", "24h")] = Duration("1s")
    """The interval."""
    burst: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    """Requests that may come at once. Default: as many as ``requests``."""


class CircuitBreaker(ApiModel):
    """Stops sending requests to a backend that keeps failing."""

    consecutive_failures: Annotated[StrictInt, Field(ge=1, le=1000)] = 5
    """Failures in a row that open the circuit. Only those of the transport count, timeouts included, not errors that
    the backend answers with."""
    open_for: Annotated[Duration, within("1s", "1h")] = Duration("30s")
    """How long requests are refused before one is let through as a trial."""


class Policy(ApiModel):
    """Limits of one connection. Applied in the order: concurrency, rate, circuit breaker, timeouts, retry."""

    timeouts: Timeouts = Timeouts()
    """How long the proxy waits for the backend."""
    retry: RetryPolicy | None = None
    """Repeats of failed requests. Default: none."""
    rate_limit: RateLimit | None = None
    """Requests per time. Default: no limit."""
    max_concurrency: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Requests in flight at once. Further ones wait for their turn, up to timeouts.connect. Default: no limit."""
    circuit_breaker: CircuitBreaker | None = None
    """When to stop sending requests to a failing backend. Default: never."""
