"""Manifests of a test, as JSON."""

from __future__ import annotations

import json
from typing import Any

API = "mcp-connections.io/v1alpha1"


def connection(name: str, url: str, **spec: Any) -> str:
    """A connection over streamable HTTP."""
    http = {"http": {"url": url}}
    return json.dumps(
        {"apiVersion": API, "kind": "McpConnection", "metadata": {"name": name}, "spec": {"transport": http, **spec}}
    )


def proxy(**spec: Any) -> str:
    """The folder's McpProxy."""
    return json.dumps({"apiVersion": API, "kind": "McpProxy", "metadata": {"name": "default"}, "spec": spec})
