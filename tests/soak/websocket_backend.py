"""A soak backend over WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, ClassVar

from aiohttp import WSMsgType, web

from tests.soak.backends import Backend


class WebSocket(Backend):
    """One socket is one session."""

    faults: ClassVar[tuple[str, ...]] = ("refusing", "silent", "cutting")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.fault = ""
        self.port = 0
        self._sockets: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    async def start(self) -> None:
        app = web.Application()
        app.add_routes([web.get("/ws", self._serve)])
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        assert self._runner is not None
        self._cut()
        await self._runner.cleanup()

    def transport(self) -> dict[str, Any]:
        return {"webSocket": {"url": f"ws://127.0.0.1:{self.port}/ws"}}

    async def suffer(self, fault: str, seconds: float) -> None:
        self.fault = fault
        try:
            if fault == "refusing":
                assert self._site is not None
                await self._site.stop()
                self._cut()
                await asyncio.sleep(seconds)
                await self._listen()
            else:
                await asyncio.sleep(seconds)
        finally:
            self.fault = ""
            if fault == "silent":
                self._cut()  # what was swallowed is never answered

    def _cut(self, *transports: asyncio.Transport) -> None:
        for transport in transports or tuple(self._sockets):
            transport.abort()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp",), max_msg_size=64 * 1024 * 1024, timeout=1.0)
        await socket.prepare(request)
        transport = request.transport
        assert transport is not None
        self._sockets.add(transport)
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT and self.fault != "silent":
                    task = asyncio.create_task(self._react(transport, socket, json.loads(frame.data)))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        finally:
            self._sockets.discard(transport)
        return socket

    async def _react(
        self, transport: asyncio.Transport, socket: web.WebSocketResponse, message: dict[str, Any]
    ) -> None:
        if "id" not in message or "method" not in message:
            return
        if self.fault == "cutting" and message["method"] == "tools/call":
            self._cut(transport)
            return
        await asyncio.sleep(self.work.delay(message))
        for each in (*self.work.notices(message), self.work.answer(message)):
            with contextlib.suppress(ConnectionError):  # it was cut off
                await socket.send_str(json.dumps(each))
