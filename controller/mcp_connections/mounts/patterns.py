"""Many patterns matched at once, each character of the text looked at once, whatever patterns and text are.

Patterns come from manifests (globs) and from backends (URI templates), texts from backends and clients. None of them
may be able to stop the process, and a backtracking regular expression would let the three together do so. Here all
places in all patterns that the text so far leads to are the bits of one integer, and a character moves them all
(Baeza-Yates and Gonnet, "A new approach to text searching", 1992, with loops for the wildcards).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

MAX_TEXT: Final = 4096
"""Characters of a text that can match. A longer one matches nothing."""
GROUP_BITS: Final = 1024
"""Patterns are taken together up to this length: most groups need to see the first few characters of a text only."""

_ACROSS_OPERATORS: Final = "+#/?&"


class Wildcard(Enum):
    """What stands for other characters than itself."""

    ONE = "?"
    """Exactly one character."""
    ANY = "*"
    """Any characters, or none."""
    SEGMENT = "{}"
    """Any characters but ``/``, or none."""


Pattern = Sequence[str | Wildcard]
"""Single characters and wildcards."""


def glob(text: str) -> Pattern:
    """``*`` is any characters, ``?`` is one; every other character is itself. There is no escape."""
    wildcards = {"*": Wildcard.ANY, "?": Wildcard.ONE}
    return [wildcards.get(character, character) for character in text]


def template(text: str) -> Pattern:
    """What a URI template expands to, and a little more: an expression stands for anything without a ``/``, and for
    anything at all where its operator allows slashes or it is exploded, as many servers read ``{path*}`` (RFC 6570,
    section 3.2). What is no expression is itself."""
    pattern: list[str | Wildcard] = []
    while text:
        literal, brace, rest = text.partition("{")
        pattern.extend(literal)
        expression, closing, after = rest.partition("}")
        if brace and closing:
            across = expression[:1] in tuple(_ACROSS_OPERATORS) or "*" in expression
            pattern.append(Wildcard.ANY if across else Wildcard.SEGMENT)
            text = after
        else:
            pattern.extend(brace + rest)
            text = ""
    return pattern


class Patterns:
    """A set of patterns."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._groups = [_Group(group) for group in _grouped(patterns)]

    def __bool__(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._groups)

    def matches(self, text: str) -> bool:
        """Whether the whole of ``text`` matches any of them. False for a text of more than ``MAX_TEXT`` characters."""
        return len(text) <= MAX_TEXT and any(group.run(text) for group in self._groups)

    def used_by(self, texts: Iterable[str]) -> list[bool]:
        """For each pattern, whether it matches any of ``texts``."""
        reached = [0] * len(self._groups)
        for text in texts:
            if len(text) <= MAX_TEXT:
                for number, group in enumerate(self._groups):
                    reached[number] |= group.run(text)
        return [bool(ends & end) for group, ends in zip(self._groups, reached, strict=True) for end in group.ends]


class _Group:
    """Some patterns side by side in the bits of one integer. A bit stands for a place before or behind a character."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.ends: list[int] = []
        self._starts = self._any_one = self._across = self._within = 0
        self._moves: dict[str, int] = {}
        """From which places each character leads to the next one."""
        place = 1
        for pattern in patterns:
            self._starts |= place
            for token in pattern:
                if token is Wildcard.ANY:
                    self._across |= place
                elif token is Wildcard.SEGMENT:
                    self._within |= place
                else:
                    if token is Wildcard.ONE:
                        self._any_one |= place
                    else:
                        assert isinstance(token, str)
                        self._moves[token] = self._moves.get(token, 0) | place
                    place <<= 1
            self.ends.append(place)
            place <<= 1
        self._all_ends = sum(self.ends)

    def run(self, text: str) -> int:
        """The ends that the whole of ``text`` leads to."""
        places = self._starts
        moves, any_one = self._moves, self._any_one
        across, anywhere = self._across, self._across | self._within
        for character in text:
            stays = across if character == "/" else anywhere
            places = (places & stays) | ((places & (moves.get(character, 0) | any_one)) << 1)
            if not places:
                return 0
        return places & self._all_ends


def _grouped(patterns: Iterable[Pattern]) -> Iterator[list[Pattern]]:
    group: list[Pattern] = []
    size = 0
    for pattern in patterns:
        size += len(pattern) + 1
        if group and size > GROUP_BITS:
            yield group
            group, size = [], len(pattern) + 1
        group.append(pattern)
    if group:
        yield group
