"""A small MCP server over legacy SSE: one tool, and a credential if asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.channels.servers import SseBackend

RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "legacy", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "echo"}]},
    "ping": {},
}


def _everybody(_: str) -> bool:
    return True


@dataclass
class LegacySse(SseBackend):
    """Each client has a stream of its own."""

    admits: Callable[[str], bool] = _everybody
    """Whether requests with this Authorization header are served."""
    posted: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    """Messages with the headers they came with."""

    async def get(self, request: web.Request) -> web.StreamResponse:
        if not self.admits(request.headers.get("Authorization", "")):
            return web.Response(status=401)
        self.endpoint = f"/messages?stream={len(self.streams)}"
        return await super().get(request)

    async def post(self, request: web.Request) -> web.StreamResponse:
        if not self.admits(request.headers.get("Authorization", "")):
            return web.Response(status=401)
        message = await request.json()
        self.posted.append((message, dict(request.headers)))
        if "id" in message and "method" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}
            stream = self.streams[int(request.query["stream"])]
            stream.put_nowait(b"event: message\ndata: " + web.json_response(answer).body + b"\n\n")  # type: ignore[operator]
        return web.Response(status=202)
