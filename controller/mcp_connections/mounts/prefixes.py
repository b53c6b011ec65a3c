"""Prefix rules: which connections may not be served together, and which of two has to give way.

Although owners are looked up and never guessed, prefixes that begin one another would let two connections meet in
one public name at any later catalogue change. So they are refused beforehand, for the younger resource, which
leaves what already works alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_connections.mounts.spec import ConnectionKey, Rejection


@dataclass(frozen=True, kw_only=True)
class PrefixClaim:
    """A connection and the prefix it wants."""

    connection: ConnectionKey
    prefix: str


class PrefixTable:
    """The claims granted so far to the connections of one proxy. Claims have to come oldest first."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._granted: dict[str, PrefixClaim] = {}
        self._beginnings: dict[str, PrefixClaim] = {}

    def conflict(self, claim: PrefixClaim) -> Rejection | None:
        """Why ``claim`` cannot stand beside the granted ones, or None.

        Reasons are ``PrefixConflict`` (the same prefix) and ``AmbiguousPrefix`` (with the separator behind it, one
        prefix begins the other). An empty prefix conflicts with none: equal public names are found in the catalogue.
        """
        if not claim.prefix:
            return None
        token = claim.prefix + self._separator
        if token in self._granted:
            return _conflict(claim, self._granted[token], self._separator)
        for end in range(1, len(token)):
            if token[:end] in self._granted:
                return _ambiguity(claim, self._granted[token[:end]], self._separator)
        if token in self._beginnings:
            return _ambiguity(claim, self._beginnings[token], self._separator)
        return None

    def grant(self, claim: PrefixClaim) -> None:
        """Hold the prefix of ``claim``, which has no conflict, against all younger ones."""
        if not claim.prefix:
            return
        token = claim.prefix + self._separator
        self._granted[token] = claim
        for end in range(1, len(token)):
            self._beginnings.setdefault(token[:end], claim)


def prefix_conflicts(claims: Iterable[PrefixClaim], separator: str) -> dict[ConnectionKey, Rejection]:
    """The claims, given oldest first, that have to give way. One that gives way stands in nobody else's way."""
    table = PrefixTable(separator)
    rejections: dict[ConnectionKey, Rejection] = {}
    for claim in claims:
        if rejection := table.conflict(claim):
            rejections[claim.connection] = rejection
        else:
            table.grant(claim)
    return rejections


def _conflict(claim: PrefixClaim, older: PrefixClaim, separator: str) -> Rejection:
    return Rejection(
        connection=claim.connection,
        reason="PrefixConflict",
        message=(
            f"{claim.connection} wants the prefix {claim.prefix!r} (separator {separator!r}), which {older.connection} "
            "has, and that connection comes first. Set another spec.prefix on one of them."
        ),
    )


def _ambiguity(claim: PrefixClaim, older: PrefixClaim, separator: str) -> Rejection:
    shorter, longer = sorted((claim.prefix, older.prefix), key=len)
    return Rejection(
        connection=claim.connection,
        reason="AmbiguousPrefix",
        message=(
            f"{claim.connection} wants the prefix {claim.prefix!r}, and {older.connection}, which comes first, has "
            f"{older.prefix!r}: with the separator {separator!r}, {shorter + separator!r} begins "
            f"{longer + separator!r}, so that two tools may get the same public name. Set another spec.prefix on one "
            "of them, or a separator that no prefix contains on the McpProxy (spec.separator)."
        ),
    )
