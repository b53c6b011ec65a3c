"""``mcp-connections plan``: what serving a folder would do."""

from __future__ import annotations


def plan() -> None:
    """Show what a folder of manifests would change."""
