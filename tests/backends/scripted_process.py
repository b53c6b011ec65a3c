"""A scripted backend in a process of its own, so that what it costs is not taken for another's.

``python -m tests.backends.scripted_process`` serves on a free port, prints its URL, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from tests.backends.scripted import ScriptedBackend

ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def scripted_process() -> AsyncIterator[str]:
    """URL of a backend with the tools ``echo`` and ``bump``."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().strip()
        yield url
    finally:
        process.stdin.close()
        async with asyncio.timeout(60):
            await process.wait()


async def _serve() -> None:
    async with ScriptedBackend().serving() as url:
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve())
