"""Runs the client programs of other languages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

TIMEOUT = 120.0


async def toured(command: list[str]) -> dict[str, Any]:
    """What the program reports in the last line that it prints."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(TIMEOUT):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
    assert process.returncode == 0, f"exit code {process.returncode}\n{out[-2000:].decode()}\n{err[-4000:].decode()}"
    report: dict[str, Any] = json.loads(out.decode().strip().splitlines()[-1])
    return report
