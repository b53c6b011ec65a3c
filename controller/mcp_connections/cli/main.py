"""The command line: what `mcp-connections` runs."""

from __future__ import annotations


def main() -> None:
    """Run the command given in ``sys.argv``."""
