"""WebSocket, subprotocol ``mcp``: one message a frame.

Not a transport of the MCP specification. This is the convention of its Python SDK up to 1.x, which several servers
still follow.
"""

from __future__ import annotations

import asyncio
from typing import Final, Unpack

import aiohttp
from aiohttp import WSCloseCode, WSMsgType

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import (
    CLOSE_SECONDS,
    RedirectRefused,
    connect_client,
    fault_of,
    refusal,
)
from mcp_connections.proxy.channels.channel import ChannelError, ProtocolViolation, TimedOut, Unreachable
from mcp_connections.proxy.channels.duplex import WRITE_SECONDS
from mcp_connections.proxy.channels.remote_duplex import RemoteDuplexChannel, Settings

SUBPROTOCOL: Final = "mcp"

Socket = aiohttp.ClientWebSocketResponse[bool]


class WebSocketChannel(RemoteDuplexChannel):
    """One MCP session over one WebSocket."""

    heartbeat_seconds = 20.0
    """A ping after so long a silence; no pong within half of it is a loss."""
    write_seconds = WRITE_SECONDS

    def __init__(self, server: HttpServer, **settings: Unpack[Settings]) -> None:
        super().__init__(server, **settings)
        self._socket: Socket | None = None
        self._turn = asyncio.Lock()

    async def _connect(self) -> None:
        client = self._client = await connect_client(self._server, self._where, self._connect_timeout)

        async def shake_hands(credential: dict[str, str]) -> Socket | aiohttp.WSServerHandshakeError:
            try:
                return await client.session.ws_connect(
                    client.base,
                    protocols=(SUBPROTOCOL,),
                    headers=credential,
                    heartbeat=self.heartbeat_seconds,
                    # aiohttp refuses what is as large as its limit.
                    max_msg_size=self._message_limit + 1,
                    decode_text=False,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                )
            except aiohttp.WSServerHandshakeError as error:
                return error

        try:
            socket = await self._authorized(shake_hands, _is_unauthorized)
        except (aiohttp.ClientError, RedirectRefused, TimeoutError, OSError) as error:
            raise fault_of(error, self._where, connecting=True) from None
        if isinstance(socket, aiohttp.WSServerHandshakeError):
            raise self._refusal(socket)
        self._socket = socket
        if socket.protocol != SUBPROTOCOL:
            raise ProtocolViolation(
                f"{self._where}: did not agree on the WebSocket subprotocol {SUBPROTOCOL!r}; check that the URL is an"
                " MCP endpoint",
                executed=False,
            )
        self._reader = self._in_background(self._read(socket))

    def _refusal(self, error: aiohttp.WSServerHandshakeError) -> ChannelError:
        if error.status == 101:
            return ProtocolViolation(
                f"{self._where}: the WebSocket handshake is wrong: {error.message}", executed=False
            )
        if error.status < 400:
            return ProtocolViolation(
                f"{self._where}: answered HTTP {error.status} instead of a WebSocket handshake; check that the URL"
                " is a WebSocket endpoint",
                executed=False,
            )
        return refusal(error.status, self._where)

    async def _read(self, socket: Socket) -> None:
        while True:
            frame = await socket.receive()
            if frame.type is not WSMsgType.TEXT and frame.type is not WSMsgType.BINARY:
                self.lose(self._end_of(socket, frame.type, frame.data, frame.extra))
                return
            assert isinstance(frame.data, bytes)
            self.receive(frame.data)

    def _end_of(self, socket: Socket, kind: WSMsgType, data: object, extra: object) -> ChannelError:
        error = data if kind is WSMsgType.ERROR else socket.exception()
        if isinstance(error, aiohttp.WebSocketError):
            if error.code == WSCloseCode.MESSAGE_TOO_BIG:
                return ProtocolViolation(
                    f"{self._where}: sent a message of more than {self._message_limit} bytes, the limit; ask the tool"
                    " for less"
                )
            return ProtocolViolation(f"{self._where}: broke the WebSocket protocol: {error} ({_code(error.code)})")
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self._where}: did not answer a ping within {self.heartbeat_seconds / 2:g} s")
        if kind is WSMsgType.CLOSE:
            said = self.redactor.excerpt(str(extra or "").encode())
            return Unreachable(
                f"{self._where}: closed the WebSocket ({_code(socket.close_code)}){f': {said}' if said else ''}"
            )
        because = f": {error}" if error is not None and str(error) else ""
        return Unreachable(f"{self._where}: the connection broke without a close frame (close code 1006){because}")

    async def _transmit(self, body: bytes) -> None:
        socket = self._socket
        assert socket is not None
        self._check_text(body)
        written = False
        try:
            async with asyncio.timeout(self.write_seconds), self._turn:
                if socket.closed:
                    raise aiohttp.ClientConnectionResetError("closed")
                written = True
                await socket.send_frame(body, WSMsgType.TEXT)
        except TimeoutError:
            raise TimedOut(
                f"{self._where}: does not read; a message was not sent within {self.write_seconds:g} s",
                executed=written,
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            self._refuse_if_over(executed=written)
            raise Unreachable(f"{self._where}: the connection broke ({error})", executed=written) from None

    def _check_text(self, body: bytes) -> None:
        # A peer closes the whole WebSocket over a text frame that is not UTF-8 (RFC 6455, section 8.1).
        if body.isascii():
            return
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolViolation(
                f"{self._where}: the message is not UTF-8 ({error.reason} at byte {error.start}), which a WebSocket"
                " cannot carry",
                executed=False,
            ) from None

    async def _disconnect(self) -> None:
        if self._socket is not None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._socket.close()
            except (TimeoutError, aiohttp.ClientError, OSError):
                pass
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait({self._reader}, timeout=CLOSE_SECONDS)
        if self._client is not None:
            await self._client.close()


def _is_unauthorized(answer: Socket | aiohttp.WSServerHandshakeError) -> bool:
    return isinstance(answer, aiohttp.WSServerHandshakeError) and answer.status == 401


def _code(code: int | None) -> str:
    if not code:
        return "no close code"
    try:
        return f"close code {code}, {WSCloseCode(code).name.replace('_', ' ').lower()}"
    except ValueError:
        return f"close code {code}"
