"""The commands as a user runs them: real processes, judged by their output, their exit code and what they serve."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

ECHO_BACKEND = Path(__file__).with_name("echo_backend.py")
PATIENCE = 60.0
"""Seconds for anything to happen. Generous: it is only ever waited out by a failing test."""

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "mcp_connections", *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Running:
    """A command that goes on, and what it has written so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""
        """Stdout and stderr, as they came."""
        self._grown = asyncio.Event()
        self._readers = [
            asyncio.create_task(self._read(stream)) for stream in (process.stdout, process.stderr) if stream is not None
        ]

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.output += line.decode()
            self._grown.set()

    async def said(self, pattern: str) -> re.Match[str]:
        """Wait for output that matches ``pattern``."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (match := re.search(pattern, self.output, re.MULTILINE)):
                    self._grown.clear()
                    if self.process.returncode is not None:
                        await asyncio.gather(*self._readers)
                        assert re.search(pattern, self.output), f"ended without saying {pattern!r}:\n{self.output}"
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._grown.wait(), 0.5)
        except TimeoutError:
            pytest.fail(f"did not say {pattern!r}:\n{self.output}")
        return match

    async def said_anew(self, pattern: str, change: Callable[[], object]) -> re.Match[str]:
        """Make a change and wait for output after it."""
        self.output = ""
        change()
        return await self.said(pattern)

    async def endpoint(self) -> str:
        """URL of the MCP endpoint, once it is served."""
        return (await self.said(r"endpoint +(http://[^\s\"]+)")).group(1)

    async def admin(self) -> str:
        """URL of the admin port, once it is served."""
        return (await self.said(r"admin +(http://\S+)/admin/mcp")).group(1)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
        await asyncio.gather(*self._readers)
        return code


Start = Callable[..., AbstractAsyncContextManager[Running]]


@contextlib.asynccontextmanager
async def start(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """Start a program, with ``env`` on top of the usual variables; it is ended with the context at the latest."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=cwd,
        env={**ENVIRONMENT, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    running = Running(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            await running.end()


def start_command(
    *arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Running]:
    """Start one of the commands."""
    return start(sys.executable, "-m", "mcp_connections", *arguments, cwd=cwd, env=env)


def manifest(name: str, *tools: str, word: str | None = None, **spec: object) -> str:
    """A connection to the echo backend."""
    stdio: dict[str, object] = {"command": [sys.executable, str(ECHO_BACKEND), *tools]}
    if word is not None:
        stdio["env"] = [{"name": "WORD", "value": word}]
    document = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpConnection",
        "metadata": {"name": name},
        "spec": {"transport": {"stdio": stdio}, **spec},
    }
    return json.dumps(document, indent=1)


@pytest.fixture
def hang_up() -> Iterator[None]:
    """SIGHUP as a closing terminal finds it: a suite started with nohup ignores it, and so would its commands."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two connections to echo backends."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "alpha.yaml").write_text(manifest("alpha", "one", "two"))
    (folder / "beta.yaml").write_text(manifest("beta", "three"))
    return folder
