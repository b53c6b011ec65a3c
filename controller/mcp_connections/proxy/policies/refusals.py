"""Requests that a limit keeps from a backend: the errors that say which limit, and when to come again.

These reasons are those of metrics and of the error's data, beside the Ready reasons of failures.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from mcp_connections.mounts.report import RefusedReport
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, RpcError

CONCURRENCY: Final = "ConcurrencyLimited"
RATE: Final = "RateLimited"
CIRCUIT: Final = "CircuitOpen"
SESSIONS: Final = "SessionLimited"
REASONS: Final = (CONCURRENCY, RATE, CIRCUIT, SESSIONS)


class Refusals:
    """Makes the errors of one connection, and counts them."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._counts: Counter[str] = Counter()

    def refuse(self, reason: str, text: str, retry_after: float | None = None) -> RpcError:
        """The error for one request. ``text`` names the policy and the limit; ``retry_after`` is in seconds."""
        self._counts[reason] += 1
        return refusal(f"connection {self._label}", reason, text, retry_after, {"connection": self._label})

    def report(self) -> RefusedReport:
        """How many of each kind there were."""
        counts = self._counts
        return RefusedReport(
            concurrency=counts[CONCURRENCY], rate=counts[RATE], circuit=counts[CIRCUIT], sessions=counts[SESSIONS]
        )


def refusal(who: str, reason: str, text: str, retry_after: float | None, data: dict[str, object]) -> RpcError:
    """The error of ``who`` for a request that it does not let through. ``data`` gets ``reason``, and ``retryAfter`` in
    seconds where that is known."""
    data["reason"] = reason
    if retry_after is not None:
        data["retryAfter"] = math.ceil(retry_after * 1000) / 1000
        text = f"{text}; try again in {data['retryAfter']:g} s"
    return RpcError(INTERNAL_ERROR, f"{who} refused the request ({reason}): {text}", data)
