"""The soak: ``python -m tests.soak.soak --seconds 1800 --sessions 200 --backends 20``.

A real ``mcp-connections serve`` with backends of every transport, clients of both eras that check each reply, random
faults, and an unrelated reload every second. Loopback only. It ends with exit code 1 if a reply was lost, crossed or
given twice, if an error was not that of a fault or named another connection, if the process grew, or if it was not
idle once it had nothing to do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.cli.conftest import Running, start_command
from tests.soak import manifests
from tests.soak.backends import Backend, Child
from tests.soak.clients import SessionClient, SoakClient, StatelessClient
from tests.soak.faults import Faults
from tests.soak.http_backends import LegacySse, StatelessHttp, StreamableHttp
from tests.soak.ledger import Ledger
from tests.soak.process import Process, Sample, is_steady
from tests.soak.report import LEFT, Report
from tests.soak.websocket_backend import WebSocket

KINDS: tuple[type[Backend], ...] = (StreamableHttp, LegacySse, Child, StatelessHttp, WebSocket, Child)
CONNECTIONS_A_CLIENT = 4
WARM_UP_SECONDS = 10.0
IDLE_SECONDS = 10.0
PATIENCE = 120.0
SETTLING = 30
"""Looks, a second apart, at most."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How large and how long."""

    seconds: float = 60.0
    sessions: int = 40
    backends: int = 6
    pause: float = 1.0
    """Seconds between two calls of a client, on average."""
    reload: float = 1.0
    """Seconds between two reloads."""
    fault: float = 1.5
    """Seconds between two faults, on average."""
    seed: int = 1


@dataclass
class Soak:
    """Everything that takes part."""

    settings: Settings
    folder: Path
    process: Process
    backends: Sequence[Backend]
    unrelated: Backend
    faults: Faults
    clients: Sequence[SoakClient]
    ledger: Ledger
    samples: list[Sample] = field(default_factory=list)

    async def run(self) -> Report:
        """From the first call to the report."""
        await self._open()
        await self._call_everything()  # what clients share is there from now on
        await self._close()
        before = await self._settled(None)
        await self._open()
        calling = [asyncio.create_task(client.run(self.settings.pause)) for client in self.clients]
        await self._load(calling)
        await asyncio.sleep(2.0)
        await self._call_everything()
        opened = await self.process.sample()
        idle = await self._idle()
        await self._close()
        after = await self._settled(before)
        return Report(
            settings=vars(self.settings),
            ledger=self.ledger,
            faults=dict(self.faults.done),
            reloads=await self.process.metric("mcp_connections_reloads_total"),
            samples=self.samples,
            before=before,
            opened=opened,
            after=after,
            idle=idle,
        )

    async def _load(self, calling: list[asyncio.Task[None]]) -> None:
        """The main part: calls, faults, reloads, and looks at the process."""
        changing = manifests.keep_changing(self.folder, self.unrelated, self.settings.reload)
        background = [*calling, _start(self.faults.run()), _start(changing)]
        await asyncio.sleep(min(WARM_UP_SECONDS, self.settings.seconds / 4))
        background.append(_start(self.process.keep_sampling(self.samples, max(0.5, self.settings.seconds / 120))))
        await asyncio.wait(background, timeout=self.settings.seconds, return_when=asyncio.FIRST_COMPLETED)
        await _stop(background, self.ledger)
        await self.faults.over()

    async def _open(self) -> None:
        for client in self.clients:
            await client.open()

    async def _close(self) -> None:
        await asyncio.gather(*(client.close() for client in self.clients))

    async def _call_everything(self) -> None:
        """Nothing is wrong with any backend now, so the first call of each succeeds."""
        for client in self.clients:
            await asyncio.gather(*(client.call(name, must_succeed=True) for name in client.connections))

    async def _idle(self) -> float:
        """The share of a core that the process takes with all sessions open and nothing to do."""
        await asyncio.sleep(2.0)
        loop, before = asyncio.get_running_loop(), self.process.cpu_seconds()
        started = loop.time()
        await asyncio.sleep(IDLE_SECONDS)
        return (self.process.cpu_seconds() - before) / (loop.time() - started)

    async def _settled(self, before: Sample | None) -> Sample:
        """What is left once the clients have gone and what they left is cleared away: hardly more than there was
        before, or what stays the same for a while."""
        samples = [await self.process.sample()]
        while len(samples) < SETTLING and not (samples[-1].is_within(before, LEFT) if before else is_steady(samples)):
            await asyncio.sleep(1.0)
            samples.append(await self.process.sample())
        return samples[-1]


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def _stop(tasks: list[asyncio.Task[None]], ledger: Ledger) -> None:
    """End what runs until it is cancelled; what ended by itself failed."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            ledger.violated(f"the soak itself failed: {error!r}")
        task.cancel()
    await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def prepared(settings: Settings, folder: Path) -> AsyncIterator[Soak]:
    """Backends, the proxy in front of them, and clients that have not begun."""
    chance = random.Random(settings.seed)  # noqa: S311
    kinds = itertools.cycle(KINDS)
    backends = [next(kinds)(f"backend{number:02}") for number in range(settings.backends)]
    unrelated = StreamableHttp("unrelated")
    served = folder / "manifests"
    served.mkdir()
    token = folder / "token"
    token.write_text("soak")
    async with contextlib.AsyncExitStack() as stack:
        for backend in (*backends, unrelated):
            await backend.start()
            stack.push_async_callback(backend.stop)
        manifests.write(served, backends)
        options = ("--port", "0", "--admin-port", "0", "--admin-token-file", str(token), "--log-level", "error")
        serve = await stack.enter_async_context(start_command("serve", str(served), *options))
        timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout, connector=connector))
        process = await _process(serve, http, len(backends))
        for backend in backends:
            if isinstance(backend, Child):
                backend.parent = process.pid
        faults = Faults(backends, pause=settings.fault, at_once=max(2, settings.backends // 5), chance=chance)
        ledger, url = Ledger(), await serve.endpoint()
        names = [backend.name for backend in backends]
        clients = [
            (SessionClient if number % 2 else StatelessClient)(
                f"client{number}",
                http,
                url,
                chance.sample(names, min(CONNECTIONS_A_CLIENT, len(names))),
                ledger,
                faults,
                random.Random(chance.random()),  # noqa: S311
            )
            for number in range(settings.sessions)
        ]
        yield Soak(settings, served, process, backends, unrelated, faults, clients, ledger)


async def _process(serve: Running, http: aiohttp.ClientSession, backends: int) -> Process:
    process = Process(serve.process.pid, await serve.admin(), "soak", http)
    async with asyncio.timeout(PATIENCE):
        while await process.metric('mcp_connections_mounts{state="Ready"}') < backends:
            await asyncio.sleep(0.2)
    return process


async def soak(settings: Settings) -> Report:
    """One whole soak."""
    # A backend that is cut off in the middle of an answer is what is wanted, and nothing to print.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        async with prepared(settings, Path(folder)) as everything:
            return await everything.run()


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in vars(Settings()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    report = asyncio.run(soak(Settings(**vars(parser.parse_args()))))
    print(report.text())
    return 1 if report.objections() else 0


if __name__ == "__main__":
    sys.exit(main())
