"""Manifests for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def connection(name: str, port: int = 9001, **spec: Any) -> str:
    body = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpConnection",
        "metadata": {"name": name},
        "spec": {"transport": {"http": {"url": f"http://127.0.0.1:{port}/mcp"}}, **spec},
    }
    return json.dumps(body)


def secret(name: str, **data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})


def proxy(**spec: Any) -> str:
    body = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpProxy",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    return json.dumps(body)


def write(path: Path, *documents: str) -> None:
    """One write of a whole file, as editors do: beside it, then renamed."""
    path.with_suffix(".tmp").write_text("\n---\n".join(documents))
    path.with_suffix(".tmp").rename(path)
