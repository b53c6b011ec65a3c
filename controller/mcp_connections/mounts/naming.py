"""Public names: how a backend's tool or prompt is called at the one endpoint.

A public name is ``{prefix}{separator}{name}``. Nobody ever splits one: its owner is looked up in the
catalogue. What is decided here is only how a name is made, the same way in every process and after every
restart, and which remark its owner gets to read.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container

MAX_NAME_LENGTH = 128
"""Characters of a tool name (MCP 2025-11-25, Server Features, Tools, Tool Names)."""

WIDELY_ACCEPTED_NAME_LENGTH = 64
"""Characters that the function-calling interfaces behind most MCP clients accept."""

MAX_DEFAULT_PREFIX_LENGTH = 40

_ALIAS_HASH_LENGTH = 8
_PREFIX_HASH_LENGTH = 6
_NOT_IN_PREFIX = re.compile(r"[^A-Za-z0-9_-]")
_BAD_CATEGORIES = frozenset({"Cc", "Cs", "Zs", "Zl", "Zp"})


def default_prefix(namespace: str, name: str, taken: Container[str]) -> str:
    """The prefix of a connection that declares none: its name, made safe.

    Every character outside ``[A-Za-z0-9_-]`` becomes ``-`` (not ``_``, which as the usual separator would make
    ``github`` and ``github.com`` ambiguous). ``taken`` holds the default prefixes of the older connections of the
    same proxy: a younger one that would get the same prefix gets a hash of its namespace and name behind it, as does
    a name of more than 40 characters. The result has 1 to 40 characters.
    """
    safe = _NOT_IN_PREFIX.sub("-", name)
    if 0 < len(safe) <= MAX_DEFAULT_PREFIX_LENGTH and safe not in taken:
        return safe
    digest = _hash(f"{namespace}/{name}")[:_PREFIX_HASH_LENGTH]
    return f"{safe[: MAX_DEFAULT_PREFIX_LENGTH - _PREFIX_HASH_LENGTH - 1]}-{digest}"


def full_name(prefix: str, separator: str, name: str) -> str:
    """``{prefix}{separator}{name}``, or ``name`` as it is under the empty prefix: the public name before aliasing."""
    return f"{prefix}{separator}{name}" if prefix else name


def public_name(prefix: str, separator: str, name: str) -> str:
    """The public name of a backend's tool or prompt ``name``.

    It is ``full_name`` unless that has more than 128 characters or holds control characters, white space or lone
    surrogates. Then it is an alias of at most 128 characters: each such character replaced by ``_``, cut where
    needed, with ``_`` and 8 hexadecimal digits of the full name's SHA-256 at its end. Other characters, those
    outside ASCII too, stay as they are.
    """
    full = full_name(prefix, separator, name)
    if len(full) <= MAX_NAME_LENGTH and not _has_bad_character(full):
        return full
    readable = "".join("_" if _is_bad(character) else character for character in full)
    return f"{readable[: MAX_NAME_LENGTH - _ALIAS_HASH_LENGTH - 1]}_{_hash(full)[:_ALIAS_HASH_LENGTH]}"


def name_notice(public: str, full: str | None = None) -> str | None:
    """What the owner of a connection should know about the public name ``public``, or None.

    ``full`` is the ``full_name`` it stands for, where the caller knows it; without it an alias of 64 characters or
    less passes unremarked.
    """
    if full is not None and public != full:
        cause = (
            f"is longer than {MAX_NAME_LENGTH} characters"
            if len(full) > MAX_NAME_LENGTH
            else "holds white space or control characters"
        )
        return f"Served as {public!r}, because its full name {cause}. Rename it (tools.rename) for a name of your own."
    if len(public) > WIDELY_ACCEPTED_NAME_LENGTH:
        return (
            f"The public name has {len(public)} characters; some clients accept no more than "
            f"{WIDELY_ACCEPTED_NAME_LENGTH}. Use a shorter prefix."
        )
    return None


def _has_bad_character(text: str) -> bool:
    return not (text.isascii() and text.isprintable() and " " not in text) and any(map(_is_bad, text))


def _is_bad(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in _BAD_CATEGORIES


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
