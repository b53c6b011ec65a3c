"""Runs the programs that make a cluster, with a time limit each and their last words where one fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.cluster.version import Unavailable

WORDS = 3000
"""Characters of a failed program's output that are shown."""


def run(
    command: Sequence[str | Path],
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    folder: Path | None = None,
) -> str:
    """The standard output of ``command``, which must end well within ``seconds``. Raises Unavailable."""
    line = " ".join(map(str, command))
    try:
        done = subprocess.run(
            [str(word) for word in command],
            env=os.environ | (environment or {}),
            cwd=folder,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{line}: there is no {error.filename} on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{line}: took longer than {seconds:.0f} s") from error
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        words = (output + done.stderr.decode(errors="replace")).strip()[-WORDS:]
        raise Unavailable(f"{line}: exit code {done.returncode}\n{words}")
    return output


def succeeds(
    command: Sequence[str | Path], *, seconds: float = 30.0, environment: Mapping[str, str] | None = None
) -> bool:
    """Whether ``command`` ends well within ``seconds``."""
    try:
        run(command, seconds=seconds, environment=environment)
    except Unavailable:
        return False
    return True
