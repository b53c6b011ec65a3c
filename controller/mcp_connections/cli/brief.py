"""A message of many lines as the one line that fits into a table; whoever needs the rest finds it in the JSON."""

from __future__ import annotations

import re
import textwrap
from typing import Final

from mcp_connections.proxy.channels.stderr_tail import ENDS_WITH

MAX_LINE: Final = 160
"""Characters of the last line."""
_SAYS_NOTHING: Final = re.compile(r"[^A-Za-z]*|at .*|Node\.js v\S+")
"""Brackets, frames of a JavaScript stack, and what Node.js writes below one."""


def brief(message: str) -> str:
    """``message`` on one line: what happened, and of what a program wrote the last line that says something."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) < 2:
        return message.strip()
    start, marker, _ = lines[0].partition(ENDS_WITH)
    last = next((line for line in reversed(lines[1:]) if not _SAYS_NOTHING.fullmatch(line)), lines[-1])
    return f"{start}{marker or ' … '}{textwrap.shorten(last, MAX_LINE, placeholder=' …')}"
