"""The folder that is served, and the connection in it that changes all the time and concerns nobody."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.soak.backends import Backend

TIMEOUTS = {"connect": "10s", "request": "12s", "max": "40s"}
"""Long enough for a busy machine not to be taken for a fault."""
UNRELATED: tuple[dict[str, Any] | None, ...] = (
    {},
    {"metadata": {"round": "2"}},
    {"account": "another", "metadata": {"round": "2"}},
    {"tools": {"exclude": ["*"]}},
    None,
)
"""What becomes of the unrelated connection, in turn: added, changed three times, removed."""


def write(folder: Path, backends: Sequence[Backend]) -> None:
    """A manifest for each backend."""
    for backend in backends:
        spec = {"session": {"mode": backend.session}, "policy": {"timeouts": TIMEOUTS}}
        _put(folder, backend.name, {**spec, "transport": backend.transport()})


async def keep_changing(folder: Path, backend: Backend, seconds: float) -> None:
    """Change the manifest of an unrelated connection every ``seconds``, until cancelled."""
    for change in itertools.cycle(UNRELATED):
        await asyncio.sleep(seconds)
        if change is None:
            (folder / f"{backend.name}.yaml").unlink(missing_ok=True)
        else:
            _put(folder, backend.name, {"transport": backend.transport(), **change})


def _put(folder: Path, name: str, spec: dict[str, Any]) -> None:
    api = {"apiVersion": "mcp-connections.io/v1alpha1", "kind": "McpConnection"}
    text = json.dumps({**api, "metadata": {"name": name}, "spec": spec}, indent=1)
    fresh = folder.parent / f"{name}.fresh"
    fresh.write_text(text)
    fresh.rename(folder / f"{name}.yaml")
