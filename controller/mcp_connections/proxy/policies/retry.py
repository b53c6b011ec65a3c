"""Which failed requests are sent again, after what pause, and how many of them in all.

A request that may have run is repeated only where its author said that this does no harm. A budget keeps retries from
multiplying the load on a backend that is in trouble already.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final

from mcp_connections.mounts.spec import Retry
from mcp_connections.proxy.catalogue.discovery import Item
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import Envelope

TRANSIENT: Final = frozenset({"Unreachable", "Timeout", "Exited"})
"""Reasons of failures that may be over the next moment. A refused credential or a wrong answer will be the same."""
READS: Final = frozenset({"resources/read", "resources/subscribe", "prompts/get", "completion/complete"})
"""Methods that change nothing however often they are called."""

SHARE: Final = 0.2
PER_SECOND: Final = 1.0
RESERVE: Final = 10.0


class RetryBudget:
    """Retries for a fifth of the requests, one a second beyond that, ten in reserve."""

    def __init__(self, now: float) -> None:
        self._tokens = RESERVE
        self._seen_at = now

    def deposit(self) -> None:
        """A request was made."""
        self._tokens = min(self._tokens + SHARE, RESERVE)

    def withdraw(self, now: float) -> bool:
        """Whether one more retry is within the budget; if so it is taken."""
        self._tokens = min(self._tokens + (now - self._seen_at) * PER_SECOND, RESERVE)
        self._seen_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def pause(retry: Retry, number: int, spread: Callable[[], float] = random.random) -> float:
    """Seconds before the ``number``-th retry: doubled each time, and at random down to half of that, so that requests
    that failed together do not come back together."""
    longest = min(retry.backoff * 2.0 ** min(number - 1, 30), retry.max_backoff)
    return longest * (1 - spread() / 2)


def is_worth_repeating(error: ChannelError, is_harmless: Callable[[], bool]) -> bool:
    """Whether a request that failed with ``error`` may be sent again: it did not run, or ``is_harmless`` to repeat."""
    return error.reason in TRANSIENT and (not error.executed or is_harmless())


def is_harmless_twice(message: Envelope, tools: Iterable[Item]) -> bool:
    """Whether a request may run twice: it reads, or it calls a tool that its backend marks as idempotent or read-only
    (server/tools, ToolAnnotations). ``message`` and ``tools`` hold the backend's own names."""
    method = jsonrpc.method_of(message)
    if method in READS:
        return True
    if method != "tools/call":
        return False
    try:
        name = jsonrpc.decode_str(jsonrpc.decode_envelope(message["params"])["name"])
        tool = next(item for item in tools if item.identity == name)
        marks = jsonrpc.decode_any(tool.members["annotations"])
    except (jsonrpc.DecodeError, KeyError, StopIteration):
        return False
    return isinstance(marks, dict) and (marks.get("idempotentHint") is True or marks.get("readOnlyHint") is True)
