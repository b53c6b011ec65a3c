"""Ends child processes when this process is gone, however it ended.

A test run that is killed cannot stop its servers. A small shell on the other end of a pipe can: the kernel closes
the pipe, the shell reads the end of it and kills.
"""

from __future__ import annotations

import subprocess


class Leash:
    """Holds the processes ``pids`` from now until ``release``."""

    def __init__(self, *pids: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -9 "$@" 2>/dev/null', "leash", *map(str, pids)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def release(self) -> None:
        """Let go without killing. Comes before the processes are stopped: their ids may be used again after."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin:
            self._shell.stdin.close()
