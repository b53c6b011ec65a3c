"""JSON whose numbers are the text they were written as, so that a test sees it when a proxy rewrites one.

``1.10`` and ``1.1``, or a 30-digit integer and the float nearest to it, are different values here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Number:
    """A number by its spelling."""

    text: str


def loads(text: bytes) -> Any:
    """Like ``json.loads``, but with Numbers, and without the words that are no JSON."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_no_constant)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


@dataclass(frozen=True)
class Style:
    """How a server writes JSON; all of it is the same value to a reader."""

    ascii: bool = False
    colon: str = ":"
    comma: str = ","
    pad: str = ""


def dumps(value: Any, style: Style | None = None) -> bytes:
    """JSON text of a value that may hold Numbers."""
    style = style or Style()
    write: Callable[[Any], str] = lambda part: _written(part, style)  # noqa: E731
    return write(value).encode()


def _written(value: Any, style: Style) -> str:
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        members = [f"{_written(k, style)}{style.colon}{_written(v, style)}" for k, v in value.items()]
        return "{" + style.pad + style.comma.join(members) + style.pad + "}"
    if isinstance(value, list | tuple):
        return "[" + style.pad + style.comma.join(_written(item, style) for item in value) + style.pad + "]"
    return json.dumps(value, ensure_ascii=style.ascii, allow_nan=False)
