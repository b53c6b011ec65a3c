"""A circuit breaker: after some failures in a row a backend is left alone for a while, then tried with one request."""

from __future__ import annotations

import math
from typing import Literal

State = Literal["Closed", "Open", "HalfOpen"]


class CircuitBreaker:
    """Opens after ``threshold`` failures in a row, for ``open_for`` seconds. Then one request is let through as a
    trial, whose outcome closes or opens the circuit. One that hangs is followed by another after ``open_for`` seconds.

    Whoever is admitted gets a permit and hands it back with the outcome. What was admitted before the circuit last
    opened says nothing about now and does not count. Times are seconds of any one clock that does not go back.
    """

    def __init__(self, *, threshold: int, open_for: float) -> None:
        self._threshold = threshold
        self._open_for = open_for
        self._failures = 0
        self._closed = True
        self._trying = False
        self._trial_at = -math.inf
        self._round = 0

    def state(self, now: float) -> State:
        """HalfOpen: a trial is under way, or the next request will be one."""
        if self._closed:
            return "Closed"
        return "HalfOpen" if self._trying or now >= self._trial_at else "Open"

    def admit(self, now: float) -> int | None:
        """A permit for one request, or None: it must not be sent."""
        if not self._closed:
            if now < self._trial_at:
                return None
            self._trying = True
            self._trial_at = now + self._open_for
        return self._round

    def wait(self, now: float) -> float:
        """Seconds until another request may be let through."""
        return 0.0 if self._closed else max(0.0, self._trial_at - now)

    def is_closed_for(self, permit: int) -> bool:
        """Whether the circuit is closed and has been since ``permit`` was given."""
        return self._closed and permit == self._round

    def succeeded(self, permit: int) -> None:
        """The backend answered, whatever it said."""
        if permit == self._round:
            self._failures = 0
            self._closed = True
            self._trying = False

    def failed(self, permit: int, now: float) -> None:
        """The backend could not be reached or did not answer."""
        if permit != self._round:
            return
        self._failures += 1
        if not self._closed or self._failures >= self._threshold:
            self._failures = 0
            self._closed = False
            self._trying = False
            self._trial_at = now + self._open_for
            self._round += 1

    def undecided(self, permit: int) -> None:
        """The request ended without telling anything of the backend: the next one will be the trial."""
        if permit == self._round and not self._closed:
            self._trying = False
            self._trial_at = -math.inf
