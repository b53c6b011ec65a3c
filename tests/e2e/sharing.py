"""Who has the cluster to himself: what acts on all of it, or is timed, must not meet the other tests.

A cluster has one set of definitions, and a release for all namespaces serves those of other tests too. So whoever has a
namespace shares the cluster, and such tests wait until nobody does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class Sharing:
    """A lock between the processes of one test run. Within a process it can be taken again."""

    def __init__(self, folder: Path) -> None:
        self._gate = folder / "e2e-gate.lock"
        self._lock = folder / "e2e-cluster.lock"
        self._held = 0

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Beside others who share."""
        with self._hold(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else."""
        assert not self._held, "this process shares the cluster: a test that wants it alone has a module of its own"
        with self._hold(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _hold(self, how: int) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if not self._held:
                # Whoever waits to be alone holds the gate, so that those who share do not relieve one another for ever.
                with _locked(self._gate, how):
                    stack.enter_context(_locked(self._lock, how))
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
