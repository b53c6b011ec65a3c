"""Requests that share one stream, as over stdio: whose a message of the backend is that names none of them.

It is given to the only request that it can belong to. One that was given up still counts: a backend that was slow, or
does not know of cancellation, goes on with it, and what it says then must not reach another client.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcp_connections.proxy.wire.jsonrpc import Envelope

if TYPE_CHECKING:
    from mcp_connections.proxy.upstream.session import Scope

MAX_GIVEN_UP: Final = 256
"""Requests that are remembered; the oldest are forgotten first."""


class Running(NamedTuple):
    """A request under way."""

    message: Envelope
    scope: Scope | None
    deadline: asyncio.Timeout


class _GivenUp(NamedTuple):
    message: Envelope
    client: object
    until: float
    """Loop time."""


class SharedStream:
    """The requests of one session. ``memory``: seconds for which one that was given up counts."""

    def __init__(self, memory: float) -> None:
        self.running: dict[int, Running] = {}
        self._memory = memory
        self._given_up: OrderedDict[int, _GivenUp] = OrderedDict()

    def give_up(self, request_id: int) -> None:
        """Nobody waits for the request any more."""
        request = self.running.get(request_id)
        if request is None:
            return
        until = asyncio.get_running_loop().time() + self._memory
        self._given_up[request_id] = _GivenUp(request.message, client_of(request.scope), until)
        if len(self._given_up) > MAX_GIVEN_UP:
            self._given_up.popitem(last=False)

    def answered(self, request_id: int) -> None:
        """A response came after all: the backend is done with that request."""
        self._given_up.pop(request_id, None)

    def candidates(self, can_concern: Callable[[Envelope], bool]) -> tuple[list[Running], Running | None]:
        """The running requests that a message can belong to; and the one that it belongs to, where that is certain
        or at least of the same client."""
        concerned = [request for request in self.running.values() if can_concern(request.message)]
        if len(concerned) != 1:
            return concerned, None
        client = client_of(concerned[0].scope)
        now = asyncio.get_running_loop().time()
        doubtful = any(
            each.until > now and each.client is not client and can_concern(each.message)
            for each in self._given_up.values()
        )
        return concerned, None if doubtful else concerned[0]


def client_of(scope: Scope | None) -> Any:
    """The client whose request a scope is; None where it is nobody's in particular."""
    return getattr(scope, "client", None)
