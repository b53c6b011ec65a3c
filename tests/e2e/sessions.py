"""Clients outside the cluster: a session each, through a Service or with one pod."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from tests.e2e.kubectl import LOOK, SECONDS, Kubectl
from tests.e2e.port_forward import port_forward
from tests.proxy.client import Client

PATIENT = aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=SECONDS)


@contextlib.asynccontextmanager
async def session(kubectl: Kubectl, target: str) -> AsyncIterator[Client]:
    """A session of the handshake era with the endpoint behind ``target``, a pod or Service."""
    async with port_forward(kubectl, target, "http") as address, aiohttp.ClientSession(timeout=PATIENT) as http:
        client = Client(http, f"http://{address}/mcp")
        await client.initialize()
        try:
            yield client
        finally:
            await client.aclose()


async def until(holds: Callable[[], Awaitable[bool]], what: str, *, look: float = LOOK) -> float:
    """Wait until it holds; the seconds that it took."""
    started = time.monotonic()
    while not await holds():
        assert time.monotonic() - started < SECONDS, f"did not come to be: {what}"
        await asyncio.sleep(look)
    return time.monotonic() - started


async def is_callable(client: Client, tool: str) -> bool:
    """Whether a client can call a tool that takes nothing."""
    response = (await client.call(tool)).response
    return "result" in response and not response["result"].get("isError")
