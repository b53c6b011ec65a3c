"""When to look at the registries again: soon while something moves, seldom once all is settled."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_connections.operator.pods import Answer

FIRST = 0.25
"""Seconds until the first look after a change. Doubles from look to look."""
SLOWEST = 10.0
"""Longest wait while something has not settled."""
SETTLED = 15.0
"""Seconds between looks at what is settled: how late status may learn of a backend that fails."""


def is_settled(answers: Iterable[Answer]) -> bool:
    """Every replica answers, every mount is up and no retired one still drains."""
    return all(
        answer.report is not None
        and all(mount.ready for mount in answer.report.mounts)
        and all(retired.state == "Closed" for retired in answer.report.retired)
        for answer in answers
    )


class Pace:
    """The waits between the looks at one proxy."""

    def __init__(self) -> None:
        self._next = FIRST

    def restart(self) -> None:
        """Something changed."""
        self._next = FIRST

    def wait(self, *, settled: bool) -> float:
        """Seconds until the next look."""
        if settled:
            self._next = FIRST
            return SETTLED
        due, self._next = self._next, min(self._next * 2, SLOWEST)
        return due
