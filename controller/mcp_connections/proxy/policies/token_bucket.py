"""A token bucket that refuses rather than waits, and says when to come again.

It is the generic cell rate algorithm (ITU-T I.371): the one thing to remember is when the bucket will be full again.
"""

from __future__ import annotations

import math
from typing import Final

_ROUNDING: Final = 1e-6
"""Seconds: whoever waits exactly as long as told must not be refused for a rounding error."""


class TokenBucket:
    """Holds ``burst`` tokens, and gets ``requests`` new ones every ``per`` seconds. Full at first.

    Times are seconds of any one clock that does not go back.
    """

    def __init__(self, *, requests: int, per: float, burst: int) -> None:
        self._interval = per / requests
        self._span = burst * self._interval
        self._full_at = -math.inf

    def take(self, now: float) -> float:
        """Take a token: 0.0, or where there is none the seconds until there will be one."""
        full_at = max(self._full_at, now) + self._interval
        lacking = full_at - now - self._span
        if lacking > _ROUNDING:
            return lacking
        self._full_at = full_at
        return 0.0
