"""What `make run` runs: the HTTP sample backend, and mcp-connections in front of it and of the stdio one.

Both end with this process, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from mcp_connections.cli.main import main as mcp_connections

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


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sample-port", type=int, default=SAMPLE_PORT)
    options = parser.parse_args()
    for port in (options.port, options.sample_port):
        if not _is_free(options.host, port):
            sys.exit(f"Port {port} is in use. Choose others: make run PORT=8100 SAMPLE_PORT=8101")
    with _manifests(options.sample_port) as folder, _sample_backend(options.sample_port):
        threading.Thread(target=_tell_usage, args=(options.host, options.port, folder), daemon=True).start()
        _serve(folder, options.host, options.port)


def _serve(folder: Path, host: str, port: int) -> None:
    """What `mcp-connections serve FOLDER --host HOST --port PORT` does, in this process. Ends in SystemExit."""
    # `python` in notes.yaml means this interpreter, and its relative path starts where the repository does.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.chdir(HERE.parent)
    sys.argv = ["mcp-connections", "serve", str(folder), "--host", host, "--port", str(port)]
    mcp_connections()


def _tell_usage(host: str, port: int, folder: Path) -> None:
    base = f"http://{host}:{port}"
    until = time.monotonic() + START_TIMEOUT
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{base}/readyz", timeout=5):
            usage = USAGE.format(url=f"{base}/mcp", python=_short(sys.executable), folder=_short(folder))
            print(usage, flush=True)
            return
        time.sleep(0.1)


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


def _short(path: str | Path) -> str:
    """``path`` from where the user is, if it is below."""
    with contextlib.suppress(ValueError):
        return str(Path(path).absolute().relative_to(Path.cwd()))
    return str(path)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
