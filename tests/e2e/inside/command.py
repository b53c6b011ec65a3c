"""A stdio MCP server whose tools tell what it got and may do. The product's image has what it needs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from fastmcp import FastMCP

server: FastMCP[None] = FastMCP("command")
MEMORY = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where the limit stands, by version 2 and 1 of control groups."""


@server.tool
def variable(name: str) -> str:
    """Value of an environment variable."""
    return os.environ.get(name, "")


@server.tool
def rights() -> dict[str, object]:
    """Who the process is, and what it may do."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "capabilities": int(status["CapEff"], 16),
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "seccomp": status["Seccomp"].strip(),
        "root": _attempt(Path("/written")),
        "tmp": _attempt(Path("/tmp/written")),  # noqa: S108  (within the container)
        "memory": next(path.read_text().strip() for path in MEMORY if path.exists()),
    }


@server.tool
def end(code: int, words: str) -> None:
    """End without an answer."""
    print(words, file=sys.stderr, flush=True)
    os._exit(code)


@server.tool
def end_bridge() -> None:
    """Have the container end: its first program is the one that started this one."""
    os.kill(os.getppid(), signal.SIGKILL)


def _attempt(path: Path) -> str:
    try:
        path.write_text("written")
    except OSError as error:
        return error.strerror or "failed"
    return "written"


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
