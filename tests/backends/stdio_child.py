"""A stdio backend in one file, run as a child process.

Options: ``--stubborn`` ignores the end of stdin and SIGTERM; ``--grandchild`` starts one more such process. Tools:
``whoami`` (its process ids and how often it was called), ``crash`` (exit code 3 in the middle of a call), ``wait``
(answers when the file named by its argument exists).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("whoami", "crash", "wait")]


class Child:
    """The state of the one session a process has."""

    def __init__(self) -> None:
        self.pids = [os.getpid()]
        self.calls = 0

    def start_grandchild(self) -> None:
        code = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
        )
        process = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self.pids.append(process.pid)

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            info = {"name": "stdio-child", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        if method == "tools/list":
            return {"tools": TOOLS}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(self.call(params))}]}
        return {}

    def call(self, params: dict[str, Any]) -> Any:
        self.calls += 1
        if params["name"] == "crash":
            sys.stderr.write("about to crash\n")
            sys.stderr.flush()
            os._exit(3)
        if params["name"] == "wait":
            while not Path(params["arguments"]["file"]).exists():
                time.sleep(0.01)
        return {"pids": self.pids, "calls": self.calls}


def main() -> None:
    child = Child()
    if "--grandchild" in sys.argv:
        child.start_grandchild()
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = child.answer(message["method"], message.get("params") or {})
            response = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.buffer.write(json.dumps(response).encode() + b"\n")
                sys.stdout.buffer.flush()
    if "--stubborn" in sys.argv:
        time.sleep(600)


main()
