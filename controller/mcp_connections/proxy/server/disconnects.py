"""Noticing that an HTTP client went away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive


async def disconnected(receive: Receive) -> None:
    """Return once the client is gone. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_gone(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work``, but no longer than the client is there."""

    async def working() -> None:
        await work()

    tasks = {asyncio.create_task(disconnected(receive)), asyncio.create_task(working())}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
