"""A handshake-era backend's questions, asked of a stateless client (2026-07-28, basic/patterns/mrtr).

The backend's request stays open while the client's is answered with ``input_required``; the client comes back with the
answers and the ``requestState`` it was given, which is nothing but the key to the open request.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Raw

from mcp_connections.proxy.downstream.stateless.client import PooledClient
from mcp_connections.proxy.upstream.session import Asker, Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.forwarded_headers import Fields
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, Envelope, RpcError

MAX_SUSPENDED: Final = 1000
SUSPENDED_SECONDS: Final = 600.0
"""How long a client may take to come back."""
GATHER_SECONDS: Final = 0.02
"""Questions that come together are asked together."""


class SuspendedCall:
    """One request to a backend that outlives the client's request it was made for. It is the scope of the former."""

    def __init__(
        self,
        client: PooledClient,
        digest: bytes,
        fields: Fields,
        work: Callable[[Scope], Coroutine[Any, Any, Envelope]],
    ) -> None:
        """``fields``: those of the client's first request, which is the one that goes to the backend."""
        self.client = client
        self.fields = fields
        self.digest = digest
        self.key = ""
        """Of the present round: an answer to an earlier one finds nobody."""
        self.expiry: asyncio.TimerHandle | None = None
        self._stream: Scope | None = None
        self._token: Raw | None = None
        """The progress token of the client's present request."""
        self._questions: dict[str, tuple[Asker, Raw, Raw]] = {}
        self._asked = asyncio.Event()
        self._count = 0
        client.interactive.add(self)
        client.busy += 1
        self._task = asyncio.create_task(work(self))
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Envelope]) -> None:
        self.client.interactive.discard(self)
        self.client.busy -= 1
        if not task.cancelled():
            task.exception()  # seen by whoever waits; nobody may

    # Scope and Interactive

    def deliver(self, message: bytes) -> None:
        """To the client's present request, if there is one."""
        if self._stream is None:
            return
        if b'"notifications/progress"' in message:
            if self._token is None:
                return
            message = _with_token(message, self._token)
        self._stream.deliver(message)

    def ask(self, asker: Asker, method: str, message: Envelope) -> None:
        """Remember a question for the answer to the client's present request."""
        self._count += 1
        question: Envelope = {"method": Raw(jsonrpc.encode(method))}
        if "params" in message:
            question["params"] = message["params"]
        self._questions[f"q{self._count}"] = (asker, message["id"], Raw(jsonrpc.encode(question)))
        self._asked.set()

    # the client's requests

    async def proceed(self, stream: Scope, params: dict[str, Raw]) -> Envelope | None:
        """Wait for the backend: its response, or None once it has asked something. ``params`` are those of the
        client's present request. Raises RpcError."""
        self._stream = stream
        self._token = jsonrpc.members(params.get("_meta"), "params._meta").get("progressToken")
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({self._task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not self._task.done():
                await asyncio.wait({self._task}, timeout=GATHER_SECONDS)
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._stream = None
            asked.cancel()
        return await self._task if self._task.done() else None

    def questions(self) -> bytes:
        """The ``input_required`` result that asks them."""
        requests = {key: question for key, (_, _, question) in self._questions.items()}
        return b'{"resultType":"input_required","inputRequests":%s,"requestState":%s}' % (
            jsonrpc.encode(requests),
            jsonrpc.encode(self.key),
        )

    def answer(self, responses: dict[str, Raw]) -> None:
        """Pass the client's answers to the backend; what is not answered is asked again."""
        for key in tuple(self._questions):
            if key in responses:
                asker, request_id, _ = self._questions.pop(key)
                asker.respond(request_id, "result", bytes(responses[key]))
        if not self._questions:
            self._asked.clear()

    def cancel(self) -> None:
        """Nobody will come back: the backend's request is cancelled, too."""
        self._task.cancel()


class SuspendedCalls:
    """Calls whose client has been asked something and has not come back yet."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, SuspendedCall] = OrderedDict()

    def park(self, call: SuspendedCall) -> None:
        """Keep a call until its client comes back, 600 s at most; the oldest make room."""
        if len(self._calls) >= MAX_SUSPENDED:
            self._forget(next(iter(self._calls))).cancel()
        call.key = secrets.token_urlsafe(24)
        self._calls[call.key] = call
        call.expiry = asyncio.get_running_loop().call_later(SUSPENDED_SECONDS, self._expire, call.key)

    def resume(self, state: str, client: PooledClient, digest: bytes) -> SuspendedCall | None:
        """The call that a ``requestState`` stands for; None where it is a backend's own, or expired.

        Raises RpcError where it is of another client or for another request.
        """
        call = self._calls.get(state)
        if call is None:
            return None
        if call.client is not client or call.digest != digest:
            raise RpcError(INVALID_PARAMS, "params.requestState belongs to another request; send this one without it")
        return self._forget(state)

    def _forget(self, state: str) -> SuspendedCall:
        call = self._calls.pop(state)
        if call.expiry is not None:
            call.expiry.cancel()
        return call

    def _expire(self, state: str) -> None:
        self._forget(state).cancel()

    def cancel_all(self) -> None:
        """The process stops."""
        for state in tuple(self._calls):
            self._forget(state).cancel()


def _with_token(message: bytes, token: Raw) -> bytes:
    notice = jsonrpc.decode_envelope(message)
    if jsonrpc.method_of(notice) != "notifications/progress":
        return message
    params = jsonrpc.decode_envelope(notice["params"])
    return jsonrpc.encode({**notice, "params": Raw(jsonrpc.encode({**params, "progressToken": token}))})


def digest_of(method: str, params: dict[str, Raw]) -> bytes:
    """What has to be the same for a retry to be one: the request less what a retry adds and each request has anew."""
    same = {key: raw for key, raw in sorted(params.items()) if key not in ("_meta", "inputResponses", "requestState")}
    return hashlib.sha256(method.encode() + b"\n" + jsonrpc.encode(same)).digest()
