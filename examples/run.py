"""What `make run` runs: the HTTP sample backend, and mcp-connections in front of it and of the stdio one.

Both end with this process. `mcp-connections serve` is told apart from the rest by being a process of its own, just as
a user would start it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLE_PORT = 8001
"""Port in clock.yaml."""
START_TIMEOUT = 60.0

USAGE = """
Call it from another terminal, with any MCP client. With FastMCP's:

{python} - <<'EOF'
import asyncio
from fastmcp import Client

async def main():
    async with Client("{url}") as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("clock_now", {{"zone": "Europe/Paris"}})).data)

asyncio.run(main())
EOF

With curl, a session first:

URL={url}
JSON=(-H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream')
SESSION=$(curl -s -D - -o /dev/null "$URL" "${{JSON[@]}}" -d '{{"jsonrpc": "2.0", "id": 1, "method": "initialize",
  "params": {{"protocolVersion": "2025-11-25", "capabilities": {{}},
             "clientInfo": {{"name": "curl", "version": "1"}}}}}}' | tr -d '\\r' | sed -n 's/^mcp-session-id: //Ip')
curl -s "$URL" "${{JSON[@]}}" -H "Mcp-Session-Id: $SESSION" -d '{{"jsonrpc": "2.0", "id": 2, "method": "tools/call",
  "params": {{"name": "clock_now", "arguments": {{"zone": "Europe/Paris"}}}}}}'

Edit, add or remove a manifest in {folder} and see it change. Ctrl-C ends it.
"""


def main() -> int:
    """Run until interrupted, or until one of the two processes ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sample-port", type=int, default=SAMPLE_PORT)
    options = parser.parse_args()
    for port in (options.port, options.sample_port):
        if not _is_free(options.host, port):
            print(f"Port {port} is in use. Choose others: make run PORT=8100 SAMPLE_PORT=8101", file=sys.stderr)
            return 2
    with _manifests(options.sample_port) as folder, _sample_backend(options.sample_port) as backend:
        return _serve(folder, backend, options.host, options.port)


def _serve(folder: Path, backend: subprocess.Popen[bytes], host: str, port: int) -> int:
    # `python` in notes.yaml means this interpreter, and its relative path starts where the repository does.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [sys.executable, "-m", "mcp_connections", "serve", str(folder), "--host", host, "--port", str(port)]
    with subprocess.Popen(command, cwd=HERE.parent, env=environment) as proxy:
        # Ctrl-C reaches the proxy by itself; a SIGTERM has to be passed on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: proxy.terminate())
        if _ready(f"http://{host}:{port}/readyz", proxy):
            print(
                USAGE.format(url=f"http://{host}:{port}/mcp", python=_short(sys.executable), folder=_short(folder)),
                flush=True,
            )
        while proxy.poll() is None and backend.poll() is None:
            time.sleep(0.2)
        if backend.poll() is not None and proxy.poll() is None:
            print("The HTTP sample backend ended; its tools are unavailable now.", file=sys.stderr)
        return max(0, proxy.wait())


@contextlib.contextmanager
def _sample_backend(port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(HERE / "backends" / "clock.py"), "--port", str(port), "--end-with-parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as backend:
        try:
            _wait_for(port, backend)
            yield backend
        finally:
            backend.terminate()


@contextlib.contextmanager
def _manifests(sample_port: int) -> Iterator[Path]:
    """The folder to serve: this one, or a copy with another port in it."""
    if sample_port == SAMPLE_PORT:
        yield HERE
        return
    with tempfile.TemporaryDirectory(prefix="mcp-connections-") as name:
        for manifest in HERE.glob("*.yaml"):
            shutil.copy(manifest, name)
        clock = Path(name, "clock.yaml")
        clock.write_text(clock.read_text().replace(f":{SAMPLE_PORT}/", f":{sample_port}/"))
        yield Path(name)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until somebody listens. A backend that does not come is reported by the proxy, like any other."""
    until = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)


def _ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5):
            return True
        time.sleep(0.1)
    return False


def _short(path: str | Path) -> str:
    """``path`` from where the user is, if it is below."""
    with contextlib.suppress(ValueError):
        return str(Path(path).absolute().relative_to(Path.cwd()))
    return str(path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
