"""What the proxy's process takes up, read from outside of it."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp

from tests.soak.backends import children_of

PAGE = os.sysconf("SC_PAGE_SIZE")
STEADY = 8
"""Samples, a second apart. Longer than idle connections to backends are kept open."""
TICK = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """One look."""

    memory: float
    """MiB of resident memory."""
    files: float
    """Open file descriptors."""
    children: float
    tasks: float
    """asyncio tasks."""

    def is_within(self, other: Sample, allowance: Sample) -> bool:
        """Whether it takes up no more than at another time and something on top, but for memory, which the allocator
        keeps."""
        return all(mine <= its + more for mine, its, more in zip(self[1:], other[1:], allowance[1:], strict=True))


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20


class Process:
    """The proxy, by its process id and its admin port."""

    def __init__(self, pid: int, admin: str, token: str, http: aiohttp.ClientSession) -> None:
        self.pid = pid
        self._metrics = f"{admin}/metrics"
        self._headers = {"authorization": f"Bearer {token}"}
        self._http = http

    async def sample(self) -> Sample:
        """What it takes up now."""
        return Sample(*self._of_the_system(), len(children_of(self.pid)), await self.metric("mcp_connections_tasks"))

    def _of_the_system(self) -> tuple[float, int]:
        return resident_mib(self.pid), sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        async with self._http.get(self._metrics, headers=self._headers) as response:
            response.raise_for_status()
            text = await response.text()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def cpu_seconds(self) -> float:
        """CPU time so far, of the process alone."""
        return cpu_seconds(self.pid)

    async def keep_sampling(self, samples: list[Sample], seconds: float) -> None:
        """Look every ``seconds``, until cancelled."""
        while True:
            samples.append(await self.sample())
            await asyncio.sleep(seconds)


def is_steady(samples: list[Sample]) -> bool:
    """Whether the last few looks saw the same, but for memory."""
    return len(samples) >= STEADY and len({sample[1:] for sample in samples[-STEADY:]}) == 1


def thirds(values: list[float]) -> tuple[float, float]:
    """The medians of the first third and of the last one."""
    size = max(1, len(values) // 3)
    return median(values[:size]), median(values[-size:])
