"""Keeps configured secrets out of texts that quote a backend: they end in logs and in a connection's status.

A backend may print what it was given ("invalid token s3cret"), on stderr, on stdout or in an error body.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Final

SHORTEST_SECRET: Final = 8
"""Characters. Shorter values ("debug", "8080") are not worth the words they would blank out elsewhere."""
MASK: Final = "[redacted]"
LEARNED: Final = 4
"""How many values are remembered that came up later: tokens replace each other."""

_ESCAPE_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Redactor:
    """Blanks the given values, and the words of several-word ones ("Bearer TOKEN"), in quoted text."""

    def __init__(self, values: Iterable[str]) -> None:
        self._configured = tuple(values)
        self._learned: deque[str] = deque(maxlen=LEARNED)
        self._compile()

    def learn(self, value: str) -> None:
        """Blank this value, too. The latest few are remembered."""
        if value not in self._learned:
            self._learned.append(value)
            self._compile()

    def _compile(self) -> None:
        values = (*self._configured, *self._learned)
        secrets = {part for value in values for part in (value, value.strip(), *value.split())}
        # The longest first: a value must not survive in part because another one is contained in it.
        found = sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def clean(self, raw: bytes) -> str:
        """Bytes of a backend as text that is safe to show: no secrets, colours or control characters."""
        text = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", raw.decode("utf-8", "replace")))
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def excerpt(self, raw: bytes, length: int = 160) -> str:
        """The beginning of ``raw`` on one line, at most ``length`` characters."""
        # A secret cut in half would not be recognised, so the cut comes last.
        text = " ".join(self.clean(raw[: length * 8]).split())
        return text if len(text) <= length else text[: length - 1] + "…"
