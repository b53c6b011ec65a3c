"""What a soak backend does, whatever it is reached by: it says which call it answered, and never answers one twice.

Only the standard library, so that it also serves as the core of a child process.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from typing import Any

Message = dict[str, Any]

VERSION = "2025-11-25"
STATELESS_VERSION = "2026-07-28"
META = "io.modelcontextprotocol"
REMEMBERED = 20_000
"""Tokens that a backend remembers as answered."""
TOOL = {"name": "work", "inputSchema": {"type": "object"}, "description": "Says which call it answered."}
CAPABILITIES: Message = {"tools": {"listChanged": True}, "logging": {}}


class Work:
    """One backend. ``life`` tells one run of it from another."""

    def __init__(self, name: str, life: str = "") -> None:
        self.name = name
        self.life = life
        self.duplicates: list[str] = []
        """Tokens of calls that came again after they were answered."""
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._serial = 0

    def delay(self, message: Message) -> float:
        """Seconds that the call takes: answers come in another order than their requests."""
        is_call = message["method"] == "tools/call"
        return float(message["params"]["arguments"].get("delay", 0)) if is_call else 0.0

    def notices(self, message: Message) -> list[Message]:
        """What goes ahead of the response to a call."""
        params = message.get("params") or {}
        if message["method"] != "tools/call":
            return []
        token = params["arguments"]["token"]
        notices = [{"level": "info", "data": token}] if params["arguments"].get("log") else []
        messages = [{"jsonrpc": "2.0", "method": "notifications/message", "params": notice} for notice in notices]
        progress = (params.get("_meta") or {}).get("progressToken")
        if progress is not None:
            steps = ({"progressToken": progress, "progress": step, "message": token} for step in (1, 2))
            messages += [{"jsonrpc": "2.0", "method": "notifications/progress", "params": step} for step in steps]
        return messages

    def answer(self, message: Message, *, stateless: bool = False) -> Message:
        """The response to a request."""
        response: Message = {"jsonrpc": "2.0", "id": message["id"]}
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            return response | {"error": {"code": -32601, "message": f"{message['method']} is unknown here"}}
        return response | {"result": {"resultType": "complete", **result} if stateless else result}

    def _result(self, method: str, params: Message) -> Message | None:
        info = {"name": self.name, "version": "1"}
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": info}
        if method == "server/discover":
            about = {"supportedVersions": [STATELESS_VERSION], "capabilities": CAPABILITIES, "serverInfo": info}
            return {**about, "ttlMs": 0, "cacheScope": "private"}
        if method == "tools/list":
            return {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}
        if method == "tools/call":
            return self._work(params["arguments"])
        return {} if method in ("ping", "logging/setLevel") else None

    def _work(self, arguments: Message) -> Message:
        token = arguments["token"]
        if token in self._answered:
            self.duplicates.append(token)
        self._answered[token] = None
        if len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)
        self._serial += 1
        padding = arguments.get("padding", "")
        receipt = {
            "token": token,
            "backend": self.name,
            "receipt": f"{self.life}{self._serial}",
            "checksum": zlib.crc32(padding.encode()),
            "duplicates": len(self.duplicates),
        }
        return {"content": [{"type": "text", "text": json.dumps(receipt)}], "structuredContent": {"padding": padding}}
