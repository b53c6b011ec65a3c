"""What a stateless backend requires of a client, asked the way that clients of the handshake era know.

(MCP 2026-07-28, basic/patterns/mrtr.) Only what the two eras call differently is decoded; what is asked and answered
passes through as it was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec import Raw

from mcp_connections.proxy.channels.channel import TimedOut
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.jsonrpc import INTERNAL_ERROR, Envelope, RpcError


def input_required(answer: Envelope) -> Envelope | None:
    """The members of a response's result if it asks for input."""
    result = answer.get("result")
    if result is None or b'"input_required"' not in bytes(result):
        return None
    try:
        members = jsonrpc.decode_envelope(result)
        return members if jsonrpc.decode_any(members["resultType"]) == "input_required" else None
    except (jsonrpc.DecodeError, KeyError):
        return None


def questions(wanted: Envelope, label: str) -> Iterator[tuple[str, str, Envelope]]:
    """Key, method and request for each of ``inputRequests``. Raises RpcError, which names the connection ``label``."""
    try:
        requests = jsonrpc.decode_envelope(wanted.get("inputRequests", Raw(b"{}")))
    except jsonrpc.DecodeError:
        raise RpcError(INTERNAL_ERROR, f"connection {label}: inputRequests is no object") from None
    for key, raw in requests.items():
        try:
            request = jsonrpc.decode_envelope(raw)
            method = jsonrpc.decode_str(request["method"])
        except (jsonrpc.DecodeError, KeyError):
            raise RpcError(INTERNAL_ERROR, f"connection {label}: inputRequests.{key} has no method") from None
        message: Envelope = {
            "jsonrpc": jsonrpc.VERSION,
            "id": Raw(jsonrpc.encode(key)),
            "method": request["method"],
            "params": _params(key, method, request.get("params", Raw(b"{}"))),
        }
        yield key, method, message


def _params(key: str, method: str, raw: Raw) -> Raw:
    """2025-11-25 requires an id for a page to visit, which 2026-07-28 dropped."""
    if method != "elicitation/create" or b'"url"' not in bytes(raw):
        return raw
    try:
        params = jsonrpc.decode_envelope(raw)
        if jsonrpc.decode_any(params["mode"]) != "url" or "elicitationId" in params:
            return raw
    except (jsonrpc.DecodeError, KeyError):
        return raw
    return Raw(jsonrpc.encode({**params, "elicitationId": Raw(jsonrpc.encode(key))}))


def with_input(request: Envelope, wanted: Envelope, responses: dict[str, Raw]) -> Envelope:
    """The request again, with the client's answers and the backend's state."""
    params = jsonrpc.decode_envelope(request["params"])
    if responses:
        params["inputResponses"] = Raw(jsonrpc.encode(responses))
    if "requestState" in wanted:
        params["requestState"] = wanted["requestState"]
    return {**request, "params": Raw(jsonrpc.encode(params))}


class Answers:
    """Collects a client's answers to several questions; each is an Asker of its own."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._pending: dict[str, asyncio.Future[Raw]] = {}

    def expect(self, key: str) -> Answer:
        """Who is to be answered for ``key``."""
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._pending[key] = future
        return Answer(future, self._label)

    async def collect(self, seconds: float) -> dict[str, Raw]:
        """All answers. Raises RpcError for the first that is an error, TimedOut after ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                return {key: await future for key, future in self._pending.items()}
        except TimeoutError:
            raise TimedOut(f"the client did not answer the backend's questions within {seconds:g} s") from None
        finally:
            for future in self._pending.values():
                if not future.cancel() and not future.cancelled():
                    future.exception()  # one refusal is enough to know of


class Answer:
    """An Asker whose answer is awaited in this process."""

    def __init__(self, future: asyncio.Future[Raw], label: str) -> None:
        self._future = future
        self._label = label

    @property
    def waiting(self) -> bool:
        """Whether the answer is still of use."""
        return not self._future.done()

    def respond(self, request_id: Raw, member: str, body: bytes) -> None:
        """The answer: ``member`` is "result" or "error"."""
        if self._future.done():
            return
        if member == "result":
            self._future.set_result(Raw(body))
            return
        text = body[:300].decode("utf-8", "replace")
        self._future.set_exception(
            RpcError(
                INTERNAL_ERROR, f"connection {self._label}: the client did not give the input it was asked for: {text}"
            )
        )
