"""The child process of tests, through whichever way it is reached: who it is, and whether it is still there."""

from __future__ import annotations

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


def is_gone(pid: int) -> bool:
    """Whether there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
