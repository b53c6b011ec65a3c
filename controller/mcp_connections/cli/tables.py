"""Tables on stdout, in the looks of ``kubectl get``: fitted to a terminal, never cut when piped into a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000
"""Columns of a table that goes to a program."""

_STYLES = {"True": "green", "False": "red", "Unknown": "yellow", "add": "green", "replace": "yellow", "retire": "red"}
_STYLES |= {"reject": "bold red", "keep": "dim", "disabled": "dim", "unclear": "yellow"}


def console() -> Console:
    """Where the commands print what they were asked for."""
    interactive = sys.stdout.isatty()
    return Console(width=None if interactive else UNLIMITED, highlight=False, soft_wrap=not interactive)


def show(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Words that carry a verdict are coloured on a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(text := _cell(value), style=_STYLES.get(text, "")) for value in row))
    terminal = console()
    lines = terminal.render_lines(table, pad=False)
    terminal.print(Segments([each for line in lines for each in (*_without_trailing_blanks(line), Segment.line())]))


def _without_trailing_blanks(line: list[Segment]) -> list[Segment]:
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        text, style, control = kept.pop()
        kept.append(Segment(text.rstrip(), style, control))
    return kept


def age(since: datetime, now: datetime) -> str:
    """The time from ``since`` to ``now`` in its largest unit or two, as kubectl writes it: 45s, 12m, 5h30m, 3d."""
    seconds = max(0, int((now - since) / timedelta(seconds=1)))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes}m{rest}s" if minutes < 10 and rest else f"{minutes}m"
    if seconds < 172_800:
        hours, rest = divmod(seconds // 60, 60)
        return f"{hours}h{rest}m" if hours < 8 and rest else f"{hours}h"
    return f"{seconds // 86_400}d"


def _cell(value: object) -> str:
    return "" if value is None else str(value)
