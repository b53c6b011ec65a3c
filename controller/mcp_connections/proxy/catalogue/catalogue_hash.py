"""The hash that a catalogue is approved by: the same whatever order, spacing and spelling its JSON comes in.

A backend must not be able to change what a model reads without changing the hash, so everything counts that a client
could see, and what cannot be brought into one form counts as it is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

INSTRUCTIONS: Final = "instructions"


class Part(NamedTuple):
    """What one digest is about: an item by kind and own name or URI, or the server's instructions."""

    kind: str
    identity: str = ""


def digest(text: bytes) -> bytes:
    """SHA-256 of a JSON value in its canonical form."""
    return hashlib.sha256(canonical(text)).digest()


def hash_of(digests: Mapping[Part, bytes]) -> str:
    """64 hexadecimal digits over all parts, in whatever order they come.

    The whole SHA-256: who controls a backend could otherwise make two catalogues of one hash, and have the harmless one
    approved. A change of this function withholds every pinned catalogue at the next upgrade.
    """
    whole = hashlib.sha256()
    for part in sorted(digests):
        for text in (part.kind, part.identity):
            encoded = text.encode("utf-8", "surrogatepass")
            whole.update(b"%d:%s" % (len(encoded), encoded))
        whole.update(digests[part])
    return whole.hexdigest()


def canonical(text: bytes) -> bytes:
    """JSON without white space, with sorted members and one spelling for each string and number.

    Text that has no such form without a loss stays as it is: members of the same name in one object, numbers that a
    double does not hold, nesting beyond what can be read, text that is not UTF-8.
    """
    try:
        value = _DECODER.decode(text.decode())
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    except (ValueError, ArithmeticError, RecursionError):
        return text


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a member is there twice, and readers differ in which one they take")
    return found


def _number(text: str) -> float:
    value = float(text)
    if Decimal(text) != Decimal(repr(value)):
        raise ValueError(f"a double does not hold {text}")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, strict=False)
