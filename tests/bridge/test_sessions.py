"""Programs behind a bridge as the mount of the proxy in front sees them: their sessions, failures and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcp_connections.proxy.channels.channel import Exited
from mcp_connections.proxy.channels.exits import Exits
from tests.bridge.serving import TOKEN, bridged
from tests.proxy.running import RunningProxy, eventually, running_proxy
from tests.proxy.stdio_children import CHILD, crash, is_gone, whoami

SILENT = ("-c", "import sys; sys.stdin.readline(); sys.stderr.write('no license: s3cret-key\\n'); sys.exit(7)")


@pytest.fixture
async def proxy() -> Any:
    async with running_proxy() as running:
        yield running


async def test_two_clients_are_two_processes_that_end_with_their_sessions(proxy: RunningProxy) -> None:
    async with bridged("one", *CHILD, "--grandchild") as spec:
        await proxy.apply(spec)
        await proxy.until_ready("one")
        a, b = await proxy.client(), await proxy.client()
        first, second, third = await whoami(a), await whoami(a), await whoami(b)
        assert (first["calls"], second["calls"], third["calls"]) == (1, 2, 1)
        assert first["pids"] == second["pids"] != third["pids"]
        await a.delete()
        await eventually(lambda: all(map(is_gone, first["pids"])))
        assert (await whoami(b))["calls"] == 2
    await eventually(lambda: all(map(is_gone, third["pids"])))  # orphans are reaped by others


async def test_a_process_that_dies_in_a_call_fails_it_with_exit_code_and_stderr_and_is_started_again(
    proxy: RunningProxy,
) -> None:
    async with bridged("one", *CHILD) as spec:
        await proxy.apply(spec)
        await proxy.until_ready("one")
        client = await proxy.client()
        await crash(client)
        assert proxy.report("one").ready, "the crash was in the client's session, not in the proxy's own"
        report = proxy.report("one")
        assert report.exits == 1
        assert "about to crash" in str(report.last_error)


async def test_ends_are_counted_where_all_processes_are_seen(proxy: RunningProxy) -> None:
    """A client that does not come back finds out nothing; what others are told has its process in the count."""
    async with bridged("one", *CHILD) as spec:
        await proxy.apply(spec)
        await proxy.until_ready("one")
        leaves, stays = await proxy.client(), await proxy.client()
        (left, *_), (other, *_) = (await whoami(leaves))["pids"], (await whoami(stays))["pids"]
        os.kill(left, signal.SIGKILL)
        os.kill(other, signal.SIGKILL)
        await eventually(lambda: is_gone(left) and is_gone(other))
        await whoami(stays)
        assert proxy.report("one").exits == 2
        await stays.delete()
        await stays.initialize()
        assert (await whoami(stays))["calls"] == 1
        assert proxy.report("one").exits == 2, "an end that was asked for does not count"


def test_a_bridge_that_follows_another_is_counted_on_top() -> None:
    before, after = Exits(), Exits()
    ends = Exited("exited with code 1")
    heard: list[str] = []
    mine = Exits()
    mine.on_exit = heard.append
    for told, count in ((before, 2), (before, 1), (before, 2), (after, 1), (after, 3)):
        mine.told(ends, told.id, count)
    assert mine.count == 5
    assert heard == ["exited with code 1"] * 3


async def test_a_killed_process_is_started_again_with_the_next_call(proxy: RunningProxy) -> None:
    async with bridged("one", *CHILD) as spec:
        await proxy.apply(spec)
        await proxy.until_ready("one")
        client = await proxy.client()
        before = await whoami(client)
        os.kill(before["pids"][0], signal.SIGKILL)
        await eventually(lambda: is_gone(before["pids"][0]))
        assert (await whoami(client))["pids"] != before["pids"]


async def test_the_end_of_the_proxys_own_process_is_an_outage_with_its_cause(
    proxy: RunningProxy, tmp_path: Path
) -> None:
    """It is told at once, on the stream that the proxy keeps open, and the mount recovers by itself."""
    pids, reasons = tmp_path / "pids", []
    note = f"import os, runpy; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n'); "
    run = f"runpy.run_path({CHILD[2]!r}, run_name='__main__')"
    async with bridged("one", sys.executable, "-IS", "-c", note + run) as spec:
        await proxy.apply(spec)
        await proxy.until_ready("one")
        before = proxy.report("one")
        proxy.registry.follow(lambda: reasons.append(proxy.report("one").reason))
        await asyncio.sleep(0.2)  # the stream is opened after the lists are read
        os.kill(int(pids.read_text().split()[0]), signal.SIGTERM)
        await eventually(lambda: "Exited" in reasons)
        await proxy.until_ready("one")
        assert proxy.report("one").last_handshake != before.last_handshake


async def test_a_program_that_ends_at_once_is_exited_with_its_stderr_and_without_its_secrets(
    proxy: RunningProxy,
) -> None:
    async with bridged("one", sys.executable, *SILENT, secrets=("s3cret-key",)) as spec:
        result = await proxy.apply(spec)
        report = proxy.report("one")
        assert (report.ready, report.reason, report.phase) == (False, "Exited", "Initialize")
        assert "exited with code 7" in report.message
        assert "no license: [redacted]" in report.message
        assert [each.phase for each in result.skipped] == ["Initialize"]
        client = await proxy.client()
        error = (await client.call("one_whoami")).error
        assert error["data"]["reason"] == "Exited"


@pytest.mark.parametrize(("command", "hint"), [("no-such-program", "not found"), ("/etc/passwd", "not executable")])
async def test_a_program_that_cannot_be_started_is_command_not_found(
    proxy: RunningProxy, command: str, hint: str
) -> None:
    async with bridged("one", command) as spec:
        await proxy.apply(spec)
        report = proxy.report("one")
        assert (report.ready, report.reason) == (False, "CommandNotFound")
        assert hint in report.message


async def test_a_program_that_refuses_to_begin_is_quoted(proxy: RunningProxy) -> None:
    refuse = (
        "import json,sys\nfor line in sys.stdin:\n m=json.loads(line)\n"
        " if 'id' in m: print(json.dumps({'jsonrpc':'2.0','id':m['id'],'error':{'code':-1,'message':'closed today'}}),"
        " flush=True)"
    )
    async with bridged("one", sys.executable, "-c", refuse) as spec:
        await proxy.apply(spec)
        report = proxy.report("one")
        assert report.reason == "ProtocolError"
        assert "closed today" in report.message


async def test_nobody_comes_in_without_the_token() -> None:
    async with bridged("one", *CHILD) as spec, aiohttp.ClientSession() as http:
        assert spec.server.kind == "http"
        for headers, status in (({}, 401), ({"authorization": "Bearer x"}, 401), (spec.server.headers, 415)):
            async with http.post(spec.server.url, data="{}", headers=headers) as response:
                assert response.status == status
                assert TOKEN not in await response.text()


async def test_what_is_no_message_of_a_session_is_refused() -> None:
    async with bridged("one", *CHILD) as spec, aiohttp.ClientSession() as http:
        assert spec.server.kind == "http"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        accept = {**spec.server.headers, "accept": "application/json, text/event-stream"}
        unknown = {**accept, "mcp-session-id": "unknown"}
        for headers, body, status in ((accept, ping, 400), (unknown, ping, 404), (accept, [ping], 400)):
            async with http.post(spec.server.url, json=body, headers=headers) as response:
                assert response.status == status
                assert "error" in await response.json()
        for method, headers, status in (("GET", unknown, 404), ("DELETE", unknown, 404), ("PUT", accept, 405)):
            async with http.request(method, spec.server.url, headers=headers) as response:
                assert response.status == status
