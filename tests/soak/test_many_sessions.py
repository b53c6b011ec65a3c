"""Sessions by the thousand that clients opened and left: what each takes, and that there is an end to it."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from mcp_connections.mounts.spec import ClientLimits
from mcp_connections.proxy.downstream import client_session
from tests.cli.conftest import start_command
from tests.proxy.conftest import MakeBackend
from tests.proxy.conftest import make_backend as make_backend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, running_proxy
from tests.soak.process import Process

SESSIONS = 5_000
AT_ONCE = 50
KIB_A_SESSION = 16.0
"""What one session without calls may take, with everything around it."""
MORE_THE_NEXT_TIME = 0.25
"""Of what the first sessions took: what the same number may take on top when they come after those have gone."""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "many", "version": "1"}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Visitor:
    """Opens sessions and remembers them."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url
        self.sessions: list[str] = []

    async def initialize(self) -> tuple[int, str | None]:
        """The status, and what Retry-After says."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        async with self._http.post(self._url, data=json.dumps(message).encode(), headers=HEADERS) as response:
            await response.read()
            if response.status == 200:
                self.sessions.append(response.headers["mcp-session-id"])
            return response.status, response.headers.get("retry-after")

    async def open(self, count: int) -> None:
        """Open this many more."""
        for _ in range(count // AT_ONCE):
            statuses = await asyncio.gather(*(self.initialize() for _ in range(AT_ONCE)))
            assert {status for status, _ in statuses} == {200}

    async def ping(self, session: str) -> int:
        message = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
        headers = HEADERS | {"mcp-session-id": session}
        async with self._http.post(self._url, data=message, headers=headers) as response:
            await response.read()
            return response.status

    async def leave(self) -> None:
        """DELETE all of them."""
        while self.sessions:
            some, self.sessions = self.sessions[:AT_ONCE], self.sessions[AT_ONCE:]
            await asyncio.gather(*(self._delete(session) for session in some))

    async def _delete(self, session: str) -> None:
        async with self._http.delete(self._url, headers={"mcp-session-id": session}) as response:
            assert response.status == 200


def manifest(kind: str, name: str, **spec: object) -> str:
    api = {"apiVersion": "mcp-connections.io/v1alpha1", "kind": kind}
    return json.dumps({**api, "metadata": {"name": name}, "spec": spec})


async def test_five_thousand_sessions_take_little_and_give_it_back(tmp_path: Path, make_backend: MakeBackend) -> None:
    backend = await make_backend()
    folder, token = tmp_path / "manifests", tmp_path / "token"
    folder.mkdir()
    token.write_text("many")
    (folder / "one.yaml").write_text(manifest("McpConnection", "one", transport={"http": {"url": backend.url}}))
    (folder / "proxy.yaml").write_text(manifest("McpProxy", "default", limits={"sessions": SESSIONS}))
    options = ("--port", "0", "--admin-port", "0", "--admin-token-file", str(token))
    async with AsyncExitStack() as stack:
        serve = await stack.enter_async_context(start_command("serve", folder, *options))
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, timeout=timeout))
        process = Process(serve.process.pid, await serve.admin(), "many", client)
        visitor = Visitor(client, await serve.endpoint())

        await visitor.open(500)  # what is allocated once is no part of a session
        await visitor.leave()
        before = await process.sample()
        await visitor.open(SESSIONS)
        opened = await process.sample()

        each = (opened.memory - before.memory) * 1024 / SESSIONS
        print(f"\n{SESSIONS} sessions: {before.memory:.1f} to {opened.memory:.1f} MiB, {each:.2f} KiB each")
        assert await process.metric("mcp_connections_client_sessions") == SESSIONS
        assert each < KIB_A_SESSION
        assert opened.tasks <= before.tasks + AT_ONCE
        assert opened.files <= before.files + AT_ONCE

        status, retry_after = await visitor.initialize()
        assert status == 503
        assert int(retry_after or 0) > 0
        for session in visitor.sessions[:: SESSIONS // 20]:
            assert await visitor.ping(session) == 200, "the others do not notice"

        first = visitor.sessions[0]
        await visitor.leave()
        after = await process.sample()
        assert await process.metric("mcp_connections_client_sessions") == 0
        assert await visitor.ping(first) == 404
        # The allocator keeps pages for the next ones, so what counts is that these need no others.
        await visitor.open(SESSIONS)
        again = await process.sample()
        print(f"when they have gone {after.memory:.1f} MiB, with as many again {again.memory:.1f} MiB")
        assert again.memory - opened.memory <= max(2.0, (opened.memory - before.memory) * MORE_THE_NEXT_TIME)


@pytest.fixture
async def proxy() -> AsyncIterator[RunningProxy]:
    async with running_proxy() as proxy:
        yield proxy


async def test_those_that_expire_make_room_and_disturb_nobody(
    proxy: RunningProxy, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await make_backend()
    limits = ClientLimits(sessions=301)
    await proxy.apply(http("one", backend.url), client_limits=limits)
    working = await proxy.client(listening=True)
    assert (await working.call("one_bump")).text == "1"
    visitor = Visitor(proxy.http, proxy.url)
    await visitor.open(300)
    assert (await visitor.initialize())[0] == 503
    assert (await working.call("one_bump")).text == "2"

    monkeypatch.setattr(client_session, "IDLE_SECONDS", 0.0)
    await asyncio.sleep(0.01)
    proxy.process.sessions._sweep()  # noqa: SLF001  (due every 30 s)
    monkeypatch.undo()

    assert len(proxy.process.sessions) == 1
    gc.collect()
    alive = [each for each in gc.get_objects() if type(each) is client_session.ClientSession]
    assert len(alive) == 1, "nothing holds those that have gone"
    assert (await working.call("one_bump")).text == "3", "it kept its session with the backend"
    assert (await visitor.initialize())[0] == 200
