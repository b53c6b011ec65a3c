"""Runs a test in virtual time: hours pass at once, and how busy the machine is does not matter."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import looptime


def virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a coroutine function without parameters a test that runs in virtual time."""

    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
            runner.run(test())

    return run
