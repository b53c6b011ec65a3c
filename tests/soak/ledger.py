"""What came of every call, and everything that must not have happened."""

from __future__ import annotations

from collections import Counter, deque

MAX_VIOLATIONS = 50
REMEMBERED = 100_000
"""Receipts that are known to have been given to a client."""


class Ledger:
    """Counts for the report; violations end a soak badly."""

    def __init__(self) -> None:
        self.calls = 0
        self.answered = 0
        self.errors: Counter[str] = Counter()
        """By the reason they give."""
        self.notices = 0
        """Notifications that reached the client they were for."""
        self.sessions = 0
        """Sessions opened."""
        self.violations: list[str] = []
        self._more = 0
        self._receipts: set[str] = set()
        self._order: deque[str] = deque()

    def violated(self, what: str) -> None:
        """Something that must not happen has happened."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)
        else:
            self._more += 1

    def received(self, receipt: str, token: str) -> None:
        """A reply has reached its client. No two replies are the same."""
        self.answered += 1
        if receipt in self._receipts:
            self.violated(f"reply {receipt} was given twice, the second time to {token}")
        self._receipts.add(receipt)
        self._order.append(receipt)
        if len(self._order) > REMEMBERED:
            self._receipts.discard(self._order.popleft())

    @property
    def wrong(self) -> int:
        """How many violations there were."""
        return len(self.violations) + self._more
