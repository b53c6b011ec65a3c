"""Texts that hold what others said, as one line that does nothing to a terminal or to the lines around it."""

from __future__ import annotations


def printable(line: str) -> str:
    """``line`` with everything escaped that is not printed: line breaks, terminal escapes, bytes that are no text."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
