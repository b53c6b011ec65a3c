"""The text behind a reference, checked for the place it goes to.

No message made here ever holds a value: messages end up in status, Events and logs, which more people may read than
the Secret.
"""

from __future__ import annotations

from mcp_connections.api.reasons import Reason
from mcp_connections.mounts.secrets import FieldRef, SecretData

_SCHEME = "bearer"
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


class UnusableValue(Exception):
    """A referenced value is missing or cannot be used. ``reason`` is a reason of the condition Accepted."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def header_value(use: FieldRef, data: SecretData) -> str:
    """The value of an HTTP header: one line, without surrounding white space. Raises UnusableValue."""
    text = _text(use, data)
    if "\n" in text or "\r" in text:
        raise _invalid(use, "has a line break inside")
    if any((character < " " and character != "\t") or character == "\x7f" for character in text):
        raise _invalid(use, "has a control character inside")
    return text


def bearer_token(use: FieldRef, data: SecretData) -> str:
    """A token as it follows ``Bearer`` in the Authorization header (RFC 6750, section 2.1). A value that holds the
    scheme already, in whatever case, loses it here. Raises UnusableValue."""
    text = header_value(use, data)
    scheme, *token = text.split(maxsplit=1)
    if scheme.lower() != _SCHEME:
        return text
    if not token:
        raise _invalid(use, "is the word Bearer without a token")
    return token[0]


def env_value(use: FieldRef, data: SecretData) -> str:
    """The value of an environment variable, without surrounding white space. Line breaks inside are kept, because
    keys in PEM and credentials in JSON have them. Raises UnusableValue."""
    text = _text(use, data)
    if "\0" in text:
        raise _invalid(use, "has a NUL character inside")
    return text


def certificates(use: FieldRef, data: SecretData) -> str:
    """PEM text of at least one certificate. Raises UnusableValue."""
    text = _text(use, data)
    if _CERTIFICATE not in text:
        raise _invalid(use, f"has no PEM certificate (a block that starts with {_CERTIFICATE})")
    return text


def _text(use: FieldRef, data: SecretData) -> str:
    ref = use.ref
    if ref.owner not in data:
        message = f"The {ref}, which {use.field} refers to, does not exist. Create it or correct the name."
        raise UnusableValue(Reason.SECRET_NOT_FOUND, message)
    if ref.key not in data[ref.owner]:
        message = f"The {ref} has no key {ref.key!r}, which {use.field} refers to. Add it or correct the key."
        raise UnusableValue(Reason.KEY_NOT_FOUND, message)
    try:
        text = data[ref.owner][ref.key].decode("utf-8").strip()
    except UnicodeDecodeError:
        raise _invalid(use, "is not UTF-8 text") from None
    if not text:
        raise _invalid(use, "is empty")
    return text


def _invalid(use: FieldRef, problem: str) -> UnusableValue:
    message = (
        f"The value under the key {use.ref.key!r} of the {use.ref}, which {use.field} refers to, {problem}. "
        "Correct it there."
    )
    return UnusableValue(Reason.INVALID_SECRET, message)
