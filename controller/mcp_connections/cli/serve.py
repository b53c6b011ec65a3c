"""``mcp-connections serve``: a folder of manifests behind one endpoint."""

from __future__ import annotations


def serve() -> None:
    """Serve the connections declared in a folder."""
