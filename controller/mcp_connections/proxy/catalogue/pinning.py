"""A pinned catalogue: what the backend has now is served only if its hash was approved (``spec.catalog.pin``).

A backend that is trusted for the tools it had when somebody looked at them can change what models read of it at any
time. With a pin it cannot: clients go on with what was approved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcp_connections.proxy.catalogue.catalogue_hash import INSTRUCTIONS, Part
from mcp_connections.proxy.catalogue.selecting import SelectedCatalogue

FEW: Final = 5
"""Names in a message, of each sort."""
MAX_NAME: Final = 80
"""Characters of a name in a message."""
_NOUNS: Final = {"resourceTemplate": "resource template", INSTRUCTIONS: "the server's instructions"}


class Pin:
    """Judges catalogues, and keeps the last one that was approved."""

    def __init__(self, approved: str | None) -> None:
        self._hash = approved
        self._approved: SelectedCatalogue | None = None

    def approves(self, seen: SelectedCatalogue) -> bool:
        """Whether ``seen`` may be served."""
        return self._hash is None or seen.hash == self._hash

    def served(self, seen: SelectedCatalogue) -> SelectedCatalogue | None:
        """What is served while the backend has ``seen``: that, or the last catalogue that was approved, or nothing."""
        if self._hash is None:
            return seen
        if self.approves(seen) and (self._approved is None or not self._approved.is_like(seen)):
            self._approved = seen
        return self._approved

    def objection(self, seen: SelectedCatalogue) -> str | None:
        """Why ``seen`` is withheld, how it differs and what to do; None if it is not."""
        if self.approves(seen):
            return None
        before = self._approved
        if before is None:
            what = (
                "Nothing is served: no catalogue with the approved hash was seen since the connection was mounted. "
                f"What the backend has now: {_named(seen.digests)}."
            )
        else:
            what = f"{_differences(before, seen)} The approved catalogue is still served."
        return (
            f"The backend's catalogue has the hash {seen.hash}, and spec.catalog.pin approves {self._hash}. {what} "
            f"Review the change, then set spec.catalog.pin to {seen.hash} to have it served."
        )


def _differences(before: SelectedCatalogue, seen: SelectedCatalogue) -> str:
    old, new = before.digests, seen.digests
    sorts = (
        ("Added", new.keys() - old.keys()),
        ("Removed", old.keys() - new.keys()),
        ("Changed", {part for part in old.keys() & new.keys() if old[part] != new[part]}),
    )
    return " ".join(f"{sort}: {_named(parts)}." for sort, parts in sorts if parts)


def _named(parts: Iterable[Part]) -> str:
    ordered = sorted(parts, key=lambda part: (part.kind != "tool", part))
    names = [_name(part) for part in ordered[:FEW]]
    if len(ordered) > FEW:
        names.append(f"and {len(ordered) - FEW} more")
    return ", ".join(names) or "nothing"


def _name(part: Part) -> str:
    noun = _NOUNS.get(part.kind, part.kind)
    if part.kind == INSTRUCTIONS:
        return noun
    name = part.identity if len(part.identity) <= MAX_NAME else f"{part.identity[: MAX_NAME - 1]}…"
    return f"{noun} {name!r}"
