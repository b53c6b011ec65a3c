"""Removes the cluster when the process that made it is gone without having done so: killed, for example.

As with the leash of the control plane, a small shell reads from a pipe that the kernel closes; this one cleans up then.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]


CLEAN_UP = (sys.executable, "-m", "tests.cluster.kind", "down")


class Guard:
    """Stands from now until ``release``."""

    def __init__(self, command: Sequence[str] = CLEAN_UP) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; exec "$@"', "guard", *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Let go without cleaning up."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin:
            self._shell.stdin.close()
