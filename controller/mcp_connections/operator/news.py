"""Tells events that change something from those that do not, such as the echo of our own status writes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

LIMIT = 100_000
"""Objects remembered. One that was forgotten counts as news once more, which costs a pass that changes nothing."""


class News:
    """Remembers the last signature of every object: what of it matters, and nothing else."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._last: OrderedDict[str, Hashable] = OrderedDict()

    def is_new(self, uid: str, signature: Hashable) -> bool:
        """Whether the object differs from when it was last seen. A first sight is news."""
        known = self._last.get(uid)
        if known is not None and known == signature:
            return False
        self._last[uid] = signature
        self._last.move_to_end(uid)
        if len(self._last) > self._limit:
            self._last.popitem(last=False)
        return True

    def previous(self, uid: str) -> Hashable | None:
        """The last signature of an object, None if it was never seen."""
        return self._last.get(uid)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._last.pop(uid, None)
