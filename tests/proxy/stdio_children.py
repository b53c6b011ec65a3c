"""The child process of tests, through whichever way it is reached: who it is, and whether it is still there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.proxy.client import Client

CHILD = (sys.executable, "-IS", str(Path(__file__).parent.parent / "backends" / "stdio_child.py"))


async def whoami(client: Client) -> Any:
    """What the child of connection ``one`` tells of itself: its process ids, and how often it was called."""
    return json.loads((await client.call("one_whoami")).text)


async def crash(client: Client) -> None:
    """Have the child of connection ``one`` crash: the call says how it ended, and the next one has another child."""
    before = await whoami(client)
    async with asyncio.timeout(20):
        error = (await client.call("one_crash")).error
    assert error["data"] == {"connection": "team/one", "reason": "Exited"}
    assert "exited with code 3" in error["message"]
    assert "about to crash" in error["message"]
    after = await whoami(client)
    assert after["calls"] == 1
    assert after["pids"] != before["pids"]


def is_gone(pid: int) -> bool:
    """Whether there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
