"""The handshake era towards a backend: ``initialize``, then a session (MCP 2025-11-25, basic/lifecycle)."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from mcp_connections.proxy import jsonrpc
from mcp_connections.proxy.channel import Envelope, ProtocolViolation, TimedOut
from mcp_connections.proxy.eras import HANDSHAKE_VERSIONS
from mcp_connections.proxy.upstream import UpstreamSession, object_member


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
