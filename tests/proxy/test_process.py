"""The process around the relay as it is run: served by uvicorn, stopped in order, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcp_connections.proxy.downstream import leaving
from mcp_connections.proxy.process import ProxyProcess
from mcp_connections.proxy.server.listening import PortError, bind
from tests.backends.calls import Call
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


async def test_while_it_stops_a_call_has_all_that_it_needs_and_nothing_new_begins(
    backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "NEW_UNTIL", 0.05)
    gate, asked = asyncio.Event(), asyncio.Event()

    async def ask(call: Call) -> Any:
        asked.set()
        await gate.wait()
        answer = await call.ask("elicitation/create", {"message": "Go on?", "requestedSchema": {"type": "object"}})
        return {"content": [{"type": "text", "text": answer["result"]["action"]}]}

    async def accept(_message: dict[str, Any]) -> Any:
        return {"action": "accept"}

    backend.tool("ask", ask)
    async with http_client() as connections, contextlib.AsyncExitStack() as stack:
        proxy, url = await stack.enter_async_context(process(drain_seconds=30))
        await proxy.registry.apply(desired(http("one", backend.url)))
        await eventually(lambda: all(mount.ready for mount in proxy.registry.mounts))
        busy, idle, late = (Client(connections, url) for _ in range(3))
        await busy.initialize(capabilities={"elicitation": {}})
        await busy.listen()
        await idle.initialize()
        busy.answerers["elicitation/create"] = accept
        calling = asyncio.create_task(busy.call("one_ask"))
        await asked.wait()
        stopping = asyncio.create_task(stack.aclose())
        try:
            ready = url.removesuffix("mcp") + "readyz"
            async with asyncio.timeout(20):
                while True:
                    async with connections.get(ready) as response:
                        if response.status == 503:
                            break
            refused = await late.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert "being stopped" in refused.error["message"]
            async with asyncio.timeout(20):
                while (await idle.request("ping")).status == 200:
                    await asyncio.sleep(0.05)
            assert (await idle.request("ping")).status == 404
            assert "one_ask" in await busy.names()
            assert not calling.done()
        finally:
            gate.set()
            await asyncio.wait([stopping], timeout=20)
        assert (await calling).text == "accept"
        await busy.until_stream_ends()
        for client in (busy, idle, late):
            await client.aclose()


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
        assert "the endpoint was stopped and gave it 1 s to end" in (await calling).error["message"]
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
