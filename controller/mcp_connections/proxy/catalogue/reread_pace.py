"""How soon a backend's lists are read again after it said that they changed.

At once for a change now and then. But some backends say so with every reading, and some never stop: each of these
readings costs them and us the whole catalogue.
"""

from __future__ import annotations

import math
from typing import Final

BURST_SECONDS: Final = 0.05
"""How long a burst of list_changed is collected before the lists are read again."""
LONGEST_SECONDS: Final = 5.0
CALM_SECONDS: Final = 1.0
"""A backend that is silent for so long after it was read is taken at its word again."""


class RereadPace:
    """The pauses before the readings of one backend's lists."""

    def __init__(self) -> None:
        self._pause = BURST_SECONDS
        self._read_at = -math.inf

    def pause(self, now: float) -> float:
        """Seconds from ``now``, the loop time at which a change was announced, to the next reading: twice those before
        the last one where that has only just ended."""
        calm = now - self._read_at > CALM_SECONDS
        self._pause = BURST_SECONDS if calm else min(self._pause * 2, LONGEST_SECONDS)
        return self._pause

    def read(self, now: float) -> None:
        """A reading has ended, well or badly."""
        self._read_at = now
