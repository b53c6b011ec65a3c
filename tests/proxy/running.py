"""A proxy process on a free port, and the clients of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp

from mcp_connections.mounts.report import MountReport, ReloadResult
from mcp_connections.mounts.spec import MountSpec
from mcp_connections.proxy.process import ProxyProcess
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.registry import ANNOUNCE_SECONDS, Registry
from tests.backends.http_server import HttpServer
from tests.backends.http_server import serving as served_http
from tests.proxy.client import Client
from tests.proxy.desired import desired, key


class RunningProxy:
    """A served ProxyProcess with everything a test asks of it."""

    def __init__(self, process: ProxyProcess, server: HttpServer, http: aiohttp.ClientSession) -> None:
        self.process = process
        self.server = server
        self.http = http
        self._clients: list[Client] = []

    @property
    def origin(self) -> str:
        return self.server.origin

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def registry(self) -> Registry:
        return self.process.registry

    async def apply(self, *mounts: MountSpec, **settings: Any) -> ReloadResult:
        """Make these mounts, oldest first, what is mounted."""
        return await self.registry.apply(desired(*mounts, **settings))

    def mount(self, name: str) -> Mount:
        """The mount in service of a connection."""
        mount = self.registry.find(key(name))
        assert mount is not None, f"{name} is not mounted"
        return mount

    def report(self, name: str) -> MountReport:
        """What the registry reports of a connection."""
        return next(mount for mount in self.registry.report().mounts if mount.connection == key(name))

    def new_client(self) -> Client:
        """A client without a session."""
        client = Client(self.http, self.url)
        self._clients.append(client)
        return client

    async def client(self, *, listening: bool = False, **hello: Any) -> Client:
        """A client with a session of its own."""
        client = self.new_client()
        await client.initialize(**hello)
        if listening:
            await client.listen()
        return client

    async def announced(self) -> None:
        """Let changes that have happened be announced: timers of one loop go off in order."""
        await asyncio.sleep(2 * ANNOUNCE_SECONDS)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds that nothing announces."""
        await eventually(condition)

    async def until_ready(self, *names: str) -> None:
        await eventually(lambda: all(self.mount(name).ready for name in names))

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


@contextlib.asynccontextmanager
async def running_proxy(**settings: Any) -> AsyncIterator[RunningProxy]:
    """A proxy process that serves nothing yet.

    Its application is served by uvicorn's HTTP protocol like in production, but without the ticks of uvicorn's own
    server loop, which would cost every test a fifth of a second; ``test_process`` is about the rest.
    """
    process = ProxyProcess(host="127.0.0.1", **settings)
    async with served_http(process.app) as server, http_client() as http:
        proxy = RunningProxy(process, server, http)
        try:
            yield proxy
        finally:
            await proxy.aclose()
            process.app.close_streams()
            await http.close()
            await process.registry.aclose()


@contextlib.asynccontextmanager
async def http_client() -> AsyncIterator[aiohttp.ClientSession]:
    """For any number of connections at a time, and for bodies as they came."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False) as http:
        yield http


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds that nothing announces."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)
