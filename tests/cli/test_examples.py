"""What `make run` runs, with ports of its own."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from pathlib import Path

from fastmcp import Client

from tests.cli.conftest import PATIENCE, start

ROOT = Path(__file__).parents[2]


def free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        return first.getsockname()[1], second.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_both_samples_are_served_and_end_with_it() -> None:
    port, sample_port = free_ports()
    options = ["--port", str(port), "--sample-port", str(sample_port)]
    async with start(sys.executable, ROOT / "examples" / "run.py", *options, cwd=ROOT) as demo:
        await demo.said(r"ready +default/clock +http as 'clock': 2 tools")
        await demo.said(r"ready +default/notes +stdio as 'notes': 2 tools")
        url = (await demo.said(r'Client\("(\S+)"\)')).group(1)
        assert url == f"http://127.0.0.1:{port}/mcp"
        async with Client(url, timeout=PATIENCE) as client:
            names = {tool.name for tool in await client.list_tools()}
            assert names == {"clock_now", "clock_seconds_between", "notes_write", "notes_titles"}
            assert re.match(r"\d{4}-\d\d-\d\dT", (await client.call_tool("clock_now", {})).data)
            await client.call_tool("notes_write", {"title": "a", "text": "b"})
            assert (await client.call_tool("notes_titles", {})).data == ["a"]
        assert await demo.end() == 0
        assert not is_open(port)
        assert not is_open(sample_port)


async def test_a_killed_launcher_leaves_no_backend() -> None:
    port, sample_port = free_ports()
    options = ["--port", str(port), "--sample-port", str(sample_port)]
    async with start(sys.executable, ROOT / "examples" / "run.py", *options, cwd=ROOT) as demo:
        await demo.said(r"ready +default/clock")
        demo.process.kill()
        await demo.process.wait()
        async with asyncio.timeout(PATIENCE):
            while is_open(sample_port):
                await asyncio.sleep(0.1)


async def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        async with start(sys.executable, ROOT / "examples" / "run.py", "--port", str(taken)) as demo:
            await demo.said(rf"Port {taken} is in use\. Choose others: make run PORT=")
            assert await demo.process.wait() == 1
