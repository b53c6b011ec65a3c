"""``kubectl port-forward``: how a test outside the cluster talks to a Service in it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

from tests.cluster.leash import Leash
from tests.e2e.kubectl import Kubectl

START_SECONDS = 60.0
END_SECONDS = 20.0


@contextlib.asynccontextmanager
async def port_forward(kubectl: Kubectl, target: str, port: str) -> AsyncIterator[str]:
    """``HOST:PORT`` on this machine that leads to ``port``, a name or number, of ``target``."""
    process = await asyncio.create_subprocess_exec(
        *kubectl.command("port-forward", target, f":{port}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=kubectl.environment(),
    )
    leash = Leash(process.pid)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"Forwarding from (\S+:\d+)", line)
        assert found, f"kubectl port-forward {target} :{port}: {line}"
        draining = asyncio.create_task(process.stdout.read())
        yield found[1]
        draining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await draining
    finally:
        leash.release()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
