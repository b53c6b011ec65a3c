"""Backends run as child processes, as far as the mount is concerned; their framing is tested with the channels."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from mcp_connections.proxy.registry import control
from tests.proxy.desired import stdio
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.stdio_children import CHILD, crash, is_gone, whoami


async def test_each_client_has_a_process_of_its_own_that_ends_with_its_session(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", *CHILD))
    await proxy.until_ready("one")
    a, b = await proxy.client(), await proxy.client()
    first, second, third = await whoami(a), await whoami(a), await whoami(b)
    assert (first["calls"], second["calls"], third["calls"]) == (1, 2, 1)
    assert first["pids"] == second["pids"] != third["pids"]
    assert proxy.report("one").sessions == 3
    await a.delete()
    await eventually(lambda: is_gone(first["pids"][0]))
    assert (await whoami(b))["calls"] == 2


async def test_shared_one_process_serves_all_clients(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", *CHILD, session="Shared"))
    await proxy.until_ready("one")
    answers = [await whoami(await proxy.client()) for _ in range(3)]
    assert [answer["calls"] for answer in answers] == [1, 2, 3]
    assert len({answer["pids"][0] for answer in answers}) == 1


async def test_a_process_that_dies_in_a_call_fails_it_with_exit_code_and_stderr_and_is_started_again(
    proxy: RunningProxy,
) -> None:
    await proxy.apply(stdio("one", *CHILD))
    await proxy.until_ready("one")
    client = await proxy.client()
    await crash(client)
    assert proxy.report("one").ready, "the crash was in the client's session, not in the proxy's own"


async def test_a_killed_process_is_started_again(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", *CHILD))
    await proxy.until_ready("one")
    client = await proxy.client()
    before = await whoami(client)
    os.kill(before["pids"][0], signal.SIGKILL)
    await eventually(lambda: proxy.report("one").sessions == 1)
    assert (await whoami(client))["pids"] != before["pids"]


async def test_a_command_that_does_not_exist_is_named(proxy: RunningProxy) -> None:
    await proxy.apply(stdio("one", "/no/such/command"), stdio("two", *CHILD))
    await proxy.until_ready("two")
    report = proxy.report("one")
    assert (report.reason, report.phase) == ("CommandNotFound", "Connect")
    assert "/no/such/command" in report.message
    client = await proxy.client()
    assert (await client.call("one_x")).error["data"]["reason"] == "CommandNotFound"
    assert "two_whoami" in await client.names()


async def test_a_command_that_ends_at_once_is_reported_and_rested(
    proxy: RunningProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "FIRST_PAUSE", 0.02)
    starts = tmp_path / "starts"
    code = f"import sys; open({str(starts)!r}, 'a').write('x'); sys.stderr.write('no license'); sys.exit(5)"
    await proxy.apply(stdio("one", sys.executable, "-IS", "-c", code))
    await eventually(lambda: proxy.report("one").attempted)
    report = proxy.report("one")
    assert (report.reason, report.phase) == ("Exited", "Initialize")
    assert "exited with code 5" in report.message
    assert "no license" in report.message
    await asyncio.sleep(2)
    assert 2 <= len(starts.read_text()) <= 9, "each pause is twice as long as the one before"


async def test_the_environment_and_folder_of_a_process_are_those_of_its_connection(
    proxy: RunningProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PROXY", "hunter2")
    code = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    info = {"name": "env", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": "env", "inputSchema": {"type": "object"}}]}
    if message["method"] == "tools/call":
        seen = {"mine": os.environ.get("MINE"), "theirs": os.environ.get("SECRET_OF_THE_PROXY"), "cwd": os.getcwd()}
        result = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    spec = stdio("one", sys.executable, "-IS", "-c", code, env={"MINE": "yes"})
    server = spec.server.model_copy(update={"working_dir": str(tmp_path)})
    await proxy.apply(spec.model_copy(update={"server": server}))
    await proxy.until_ready("one")
    client = await proxy.client()
    assert json.loads((await client.call("one_env")).text) == {"mine": "yes", "theirs": None, "cwd": str(tmp_path)}


async def test_a_call_in_flight_keeps_its_process_through_a_replacement(proxy: RunningProxy, tmp_path: Path) -> None:
    await proxy.apply(stdio("one", *CHILD))
    await proxy.until_ready("one")
    client = await proxy.client()
    before = await whoami(client)
    gate = tmp_path / "open"
    calling = asyncio.create_task(client.call("one_wait", {"file": str(gate)}))
    await eventually(lambda: proxy.report("one").in_flight == 1)
    old = proxy.mount("one")
    await proxy.apply(stdio("one", *CHILD, fingerprint="2"))
    await proxy.until_ready("one")
    assert (await whoami(client))["pids"] != before["pids"]
    gate.touch()
    assert json.loads((await calling).text)["pids"] == before["pids"]
    async with asyncio.timeout(20):
        await old.closed.wait()
    assert is_gone(before["pids"][0])
