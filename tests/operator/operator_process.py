"""The operator as a process of its own, so that it can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Self

from tests.cluster.leash import Leash
from tests.operator.kubelet import SOURCE_ROOT


class OperatorProcess:
    """``mcp-connections operator`` for one namespace, or with None for all of them."""

    def __init__(self, namespace: str | None, kubeconfig: Path, log: Path, *arguments: str) -> None:
        served = ("--namespace", namespace) if namespace is not None else ()
        self._arguments = (*served, "--liveness-port", "0", *arguments)
        self._kubeconfig = kubeconfig
        self.log = log
        self.process: asyncio.subprocess.Process | None = None
        self._leash: Leash | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None:
            await self.stop()

    async def start(self) -> None:
        """Start it. It is at work some time later."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mcp_connections", "operator", *self._arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE_ROOT), "KUBECONFIG": str(self._kubeconfig)},
                start_new_session=True,
            )
        self._leash = Leash(self.process.pid)

    async def kill(self) -> None:
        """End it in the middle of whatever it does."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """End it the way a kubelet does, and return its exit code."""
        return await self._end(signal.SIGTERM)

    async def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(60):
            code = await self.process.wait()
        if self._leash is not None:
            self._leash.release()
        self.process = self._leash = None
        return code
