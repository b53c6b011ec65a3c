"""Which of a backend's items are shown to clients, and under which names."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from mcp_connections.api.lists import ListSet
from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule
from mcp_connections.api.strings import ToolName

Globs = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=512)], ...], Field(max_length=128), ListSet()
]
"""Patterns with ``*`` (any characters) and ``?`` (one character), matched against the whole of the backend's own name
or URI."""


class Selection(ApiModel):
    """Which items are shown."""

    include: Globs = ()
    """Globs (* and ?) of the items to show, by the backend's own names or URIs. Default: all."""
    exclude: Globs = ()
    """Globs of the items to hide: not listed, and unknown to whoever asks for them. Wins over include."""


class ToolSelection(Selection):
    """Which tools are shown, and under which names."""

    rename: Annotated[
        dict[str, ToolName],
        Field(max_length=128),
        Rule(
            cel="self.all(name, name.size() >= 1 && name.size() <= 128)",
            message="must have keys of 1 to 128 characters, the backend's names of the tools",
            holds=lambda names: all(1 <= len(name) <= 128 for name in names),
        ),
        Rule(
            cel="self.all(a, self.exists_one(b, self[b] == self[a]))",
            message="must not give two tools the same name",
            holds=lambda names: len(set(names.values())) == len(names),
        ),
    ] = Field(default_factory=dict)
    """New name by the backend's name of the tool. The prefix still goes in front. The old name is no longer known."""
