"""The process around the relay as it is run: served by uvicorn, stopped in order, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from mcp_connections.proxy.process import ProxyProcess
from mcp_connections.proxy.server.listening import PortError, bind
from tests.backends.scripted import ScriptedBackend
from tests.proxy.client import Client
from tests.proxy.desired import desired, http, stdio
from tests.proxy.running import eventually, http_client

CHILD = (sys.executable, "-IS", str(Path(__file__).parent.parent / "backends" / "stdio_child.py"))


@contextlib.asynccontextmanager
async def process(*, drain_seconds: float = 10) -> AsyncIterator[tuple[ProxyProcess, str]]:
    """A process that serves, and the URL of its endpoint."""
    process = ProxyProcess(host="127.0.0.1")
    listener = bind("127.0.0.1", 0, "--port")
    async with process.serve(listener, drain_seconds=drain_seconds):
        yield process, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


async def test_stopping_ends_streams_lets_calls_end_and_closes_everything(backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    async with http_client() as connections:
        async with process() as (proxy, url):
            await proxy.registry.apply(desired(http("one", backend.url), stdio("child", *CHILD)))
            await eventually(lambda: all(mount.ready for mount in proxy.registry.mounts))
            clients = [Client(connections, url) for _ in range(3)]
            for client in clients:
                await client.initialize()
                await client.listen()
            pids = json.loads((await clients[0].call("child_whoami")).text)["pids"]
            calling = asyncio.create_task(clients[1].call("one_slow"))
            call = await gate.arrived()
            asyncio.get_running_loop().call_later(0.3, gate.open)
        assert (await calling).text == f"passed in {call.session.id}", "the call was given time to end"
        for client in clients:
            await client.until_stream_ends()
        assert backend.live == []
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(aiohttp.ClientConnectorError):
            await clients[0].request("ping")


async def test_stopping_takes_no_longer_than_allowed(backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    async with http_client() as connections:
        async with process(drain_seconds=1) as (proxy, url):
            await proxy.registry.apply(desired(http("one", backend.url)))
            client = Client(connections, url)
            await client.initialize()
            calling = asyncio.create_task(client.call("one_slow"))
            call = await gate.arrived()
        assert not gate.opened.is_set()
        with contextlib.suppress(aiohttp.ClientError):
            assert not (await calling).messages
        async with asyncio.timeout(20):
            await call.cancelled.wait()
        assert backend.live == []


async def test_no_task_is_left_of_a_process(backend: ScriptedBackend) -> None:
    before = asyncio.all_tasks()
    async with http_client() as connections, process() as (proxy, url):
        await proxy.registry.apply(desired(http("one", backend.url)))
        client = Client(connections, url)
        await client.initialize()
        await client.listen()
        await client.call("one_bump")
        await client.aclose()
    await eventually(lambda: asyncio.all_tasks() <= before)


async def test_a_port_that_is_taken_is_named() -> None:
    async with process() as (_, url):
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(PortError, match=rf"cannot listen at 127\.0\.0\.1:{port}: .*; choose another --port"):
            bind("127.0.0.1", port, "--port")
    bind("127.0.0.1", port, "--port").close()


def test_an_address_of_another_machine_is_named_with_the_option_that_gave_it() -> None:
    with pytest.raises(PortError, match=r"cannot listen at 192\.0\.2\.1:0: .*; give --host an address of this machine"):
        bind("192.0.2.1", 0, "--port")
