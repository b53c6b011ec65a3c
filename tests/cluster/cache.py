"""Where what is fetched or built for the tests is kept between runs, outside the work tree, one process at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.version import Unavailable

Say = Callable[[str], None]
"""Tells a person what takes long."""

LOCK_TIMEOUT = 60 * 60.0
"""Seconds to wait for another process that prepares the same; a cold build of a node's programs takes 15 minutes on 2
busy cores."""


def cache_root() -> Path:
    """The folder of everything this project keeps: ``$XDG_CACHE_HOME/mcp-connections``, else in ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mcp-connections"


@contextmanager
def exclusive(lock: Path, say: Say = lambda _: None) -> Iterator[None]:
    """Hold ``lock`` against other processes, and clear what a killed holder left half done: the folders named like the
    lock. The kernel releases it if this process dies. Raises Unavailable after LOCK_TIMEOUT."""
    told = False
    deadline = time.monotonic() + LOCK_TIMEOUT
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"Another process has held {lock} for {LOCK_TIMEOUT:.0f} s: see what it is waiting for"
                    ) from None
                if not told:
                    say(f"Waiting for another process, which holds {lock} ...")
                    told = True
                time.sleep(0.5)
        for abandoned in lock.parent.glob(f"{lock.stem}-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield
