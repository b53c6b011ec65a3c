"""The handshake era towards a backend: ``initialize``, then a session (MCP 2025-11-25, basic/lifecycle)."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from mcp_connections.proxy.channels.channel import ProtocolViolation, SessionLost, TimedOut
from mcp_connections.proxy.upstream.session import Scope, UpstreamSession, object_member
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import HANDSHAKE_VERSIONS, HEADER_MISMATCH, STATELESS_VERSION, UNSUPPORTED_VERSION
from mcp_connections.proxy.wire.jsonrpc import Envelope


class HandshakeSession(UpstreamSession):
    """A session of a protocol version up to 2025-11-25."""

    era = "handshake"

    async def begin(self, seconds: float) -> None:
        """``initialize`` and ``notifications/initialized``, within ``seconds``."""
        params = b'{"protocolVersion":"%s","capabilities":%s,"clientInfo":%s}' % (
            HANDSHAKE_VERSIONS[0].encode(),
            self._hello.capabilities,
            self._hello.client_info,
        )
        message: Envelope = {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"initialize"'), "params": Raw(params)}
        self._channel.negotiated("")
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange(self._next_id(), message, None, None)
                self._adopt(answer)
                await self._channel.send(jsonrpc.notification("notifications/initialized"))
        except TimeoutError:
            raise TimedOut(f"no answer to initialize within {seconds:g} s") from None

    async def request(self, message: Envelope, scope: Scope | None = None) -> Envelope:
        """Like that of any session. Raises SessionLost where the answer shows that the backend is of the other era now:
        it was replaced, and what it has to say about every request is the same."""
        answer = await super().request(message, scope)
        error = answer.get("error")
        if error is not None and b"-3202" in bytes(error) and _is_of_the_other_era(error, message):
            raise SessionLost("the backend no longer serves the protocol version that was agreed on")
        return answer

    def _adopt(self, answer: Envelope) -> None:
        result = self._result_object(answer, "initialize")
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            # lifecycle, Version Negotiation: a client that does not support the server's version disconnects.
            raise ProtocolViolation(
                f"the backend wants protocol version {version!r}; supported are {', '.join(HANDSHAKE_VERSIONS)}"
            )
        self.protocol_version = version
        self.capabilities = object_member(result.get("capabilities"))
        self.server_info = object_member(result.get("serverInfo"))
        instructions = result.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else None
        self._channel.negotiated(version)


def _is_of_the_other_era(error: Raw, request: Envelope) -> bool:
    """Before 2026-07-28 its codes were anybody's to use, so one alone proves nothing about a call."""
    try:
        members = jsonrpc.decode_envelope(error)
        code = jsonrpc.decode_any(members.get("code", jsonrpc.NULL))
        if code == HEADER_MISMATCH:
            return jsonrpc.method_of(request) == "ping"
        if code != UNSUPPORTED_VERSION:
            return False
        supported = jsonrpc.decode_any(jsonrpc.decode_envelope(members["data"])["supported"])
    except (jsonrpc.DecodeError, KeyError):
        return False
    return (
        isinstance(supported, list)
        and STATELESS_VERSION in supported
        and not {*HANDSHAKE_VERSIONS} & {*map(str, supported)}
    )
