"""Programs under test: started, waited for until they serve, and ended with the context."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.leash import Leash

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
END_SECONDS = 30.0


@contextmanager
def started(log: Path, pattern: str, module: str, *arguments: str) -> Iterator[str]:
    """Run a Python module until the context ends. What the first group of ``pattern`` finds in its output, which goes
    to ``log``, is its URL."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", module, *arguments], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )
    leash = Leash(process.pid)
    try:
        yield _found(process, log, pattern)
    finally:
        leash.release()
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _found(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (match := re.search(pattern, log.read_text(errors="replace"), re.MULTILINE)) is None:
        text = log.read_text(errors="replace")
        assert process.poll() is None, f"it ended with exit code {process.returncode}:\n{text}"
        assert time.monotonic() < deadline, f"it did not say {pattern!r} within {START_SECONDS:.0f} s:\n{text}"
        time.sleep(0.05)
    return match[1]
