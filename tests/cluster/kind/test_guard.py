"""What a killed run cannot clean up itself is cleaned up; what it did clean up is left alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.kind.guard import Guard

KILLED = """
import os, sys
from tests.cluster.kind.guard import Guard
guard = Guard(["touch", sys.argv[1]])
os.kill(os.getpid(), 9)
"""


def test_it_cleans_up_after_a_process_that_was_killed(tmp_path: Path) -> None:
    cleaned = tmp_path / "cleaned"

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(cleaned)], cwd=Path(__file__).parents[3], timeout=60, check=False
    )

    assert killed.returncode == -9
    deadline = time.monotonic() + 60
    while not cleaned.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_released_it_does_nothing(tmp_path: Path) -> None:
    guard = Guard(["touch", str(tmp_path / "cleaned")])

    guard.release()

    assert not (tmp_path / "cleaned").exists()
