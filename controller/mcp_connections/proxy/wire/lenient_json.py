"""JSON that msgspec refuses though it is valid: lone surrogates in strings, numbers beyond a double.

A JavaScript server that cuts a text in the middle of an emoji sends such a string, and one of them anywhere in a list
would cost the client the whole list. The standard library reads them, and says where each value ends, so they can be
carried untouched like any other. Slow, but only ever used after msgspec has failed.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from msgspec import Raw

_SPACE: Final = re.compile(r"[ \t\n\r]*")


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def value(raw: bytes | Raw) -> Any:
    """The whole value. Raises ValueError or RecursionError."""
    return _DECODER.decode(_text(raw))


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """An object's members, as they were written. Raises ValueError or RecursionError."""
    text = _text_with_escapes(raw)
    found: dict[str, Raw] = {}
    position = _opened(text, "{")
    while text[position] != "}":
        if text[position] != '"':
            raise ValueError(f"a member's name expected at character {position}")
        name, position = _DECODER.raw_decode(text, position)
        name.encode()  # one that cannot be written back would fail later
        position = _past(text, position, ":")
        found[name], position = _value_at(text, position)
        position = _next(text, position, "}")
    _ended(text, position)
    return found


def items(raw: bytes | Raw) -> list[Raw]:
    """An array's items, as they were written. Raises ValueError or RecursionError."""
    text = _text_with_escapes(raw)
    found: list[Raw] = []
    position = _opened(text, "[")
    while text[position] != "]":
        item, position = _value_at(text, position)
        found.append(item)
        position = _next(text, position, "]")
    _ended(text, position)
    return found


def _text(raw: bytes | Raw) -> str:
    # A space at the end, so that looking one character ahead needs no care.
    return bytes(raw).decode() + " "


def _text_with_escapes(raw: bytes | Raw) -> str:
    # Where values are only carried, escapes are all that the two readers disagree on: other bad text is not read twice.
    if b"\\u" not in bytes(raw):
        raise ValueError("it has no escapes")
    return _text(raw)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match is not None and match.end() < len(text) else len(text) - 1


def _opened(text: str, mark: str) -> int:
    return _past(text, 0, mark)


def _past(text: str, position: int, mark: str) -> int:
    position = _skip(text, position)
    if text[position] != mark:
        raise ValueError(f"{mark!r} expected at character {position}")
    return _skip(text, position + 1)


def _value_at(text: str, position: int) -> tuple[Raw, int]:
    _, end = _DECODER.raw_decode(text, position)
    return Raw(text[position:end].encode()), end


def _next(text: str, position: int, closing: str) -> int:
    """Where the next member begins, or where ``closing`` is."""
    position = _skip(text, position)
    if text[position] == closing:
        return position
    position = _past(text, position, ",")
    if text[position] == closing:
        raise ValueError(f"a value expected at character {position}")
    return position


def _ended(text: str, position: int) -> None:
    if text[position + 1 :].strip(" \t\n\r"):
        raise ValueError(f"nothing expected after character {position}")
