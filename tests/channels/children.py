"""Backends as child processes: small scripts, and a look at what is left of them."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any

from mcp_connections.mounts.spec import StdioServer
from mcp_connections.proxy.channels.stdio import StdioChannel

PRELUDE = """\
import json, os, signal, subprocess, sys, time

def read():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None

def write(raw):
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()

def answer(message, result):
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")

def say(text):
    sys.stderr.write(text)
    sys.stderr.flush()

def grandchild(code="import time; time.sleep(600)", **options):
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); " + code
    process = subprocess.Popen([sys.executable, "-ISc", script], stdout=subprocess.PIPE, **options)
    process.stdout.readline()
    return process

"""

ECHO = """
while (message := read()) is not None:
    if "id" in message and "method" in message:
        answer(message, message.get("params"))
"""


class Children:
    """Starts scripts whose processes, grandchildren included, can be told from all others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = f"MCP_TEST_MARK={uuid.uuid4().hex}"
        self._channels: list[StdioChannel] = []

    @property
    def mark(self) -> dict[str, str]:
        name, _, value = self._mark.partition("=")
        return {name: value}

    def server(self, code: str = ECHO, **fields: Any) -> StdioServer:
        """A backend that runs ``code``."""
        script = self._folder / f"backend{uuid.uuid4().hex}.py"
        script.write_text(PRELUDE + code)
        env = self.mark | fields.pop("env", {})
        return StdioServer(command=(sys.executable, "-IS", str(script)), env=env, **fields)

    def channel(self, code: str = ECHO, *, message_limit: int = 64 * 1024 * 1024, **fields: Any) -> StdioChannel:
        """A channel to a backend that runs ``code``, not opened yet."""
        channel = StdioChannel(
            self.server(code, **fields), connection="team/tools", connect_timeout=20.0, message_limit=message_limit
        )
        self._channels.append(channel)
        return channel

    async def aclose(self) -> None:
        """Close what a failed test has left open."""
        for channel in self._channels:
            await channel.aclose()

    def alive(self) -> list[int]:
        """The marked processes there are. One that has ended has no environment any more, reaped or not."""
        mark = self._mark.encode()
        return [pid for pid in _pids() if mark in _read(f"/proc/{pid}/environ").split(b"\0")]

    def kill(self) -> None:
        for pid in self.alive():
            os.kill(pid, 9)


def zombies() -> list[int]:
    """Children of this process that have ended and wait to be reaped."""
    found = []
    for pid in _pids():
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if fields and fields[0] == b"Z" and int(fields[1]) == os.getpid():
            found.append(pid)
    return found


def open_files() -> int:
    """How many file descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
