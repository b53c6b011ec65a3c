"""What the admin surface needs of the process it administers.

The admin surface knows neither where desired mounts come from (a folder, mounted files, an operator's push) nor how
they are mounted. Whoever assembles a process (``cli.serve``, ``cli.proxy``) implements this protocol over its registry
and its source.
"""

from __future__ import annotations

from typing import Protocol

from mcp_connections.mounts.plan import Plan
from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, WireModel


class HealthReport(WireModel):
    """The answer of one backend to a ping."""

    connection: ConnectionKey
    healthy: bool
    reason: str
    """Ready, or the Ready reason that says why not."""
    message: str
    seconds: float
    """From ping to answer, or to the failure."""


class SourceError(Exception):
    """The source of desired mounts cannot be used now; the mounts stay as they are. The text says what is wrong
    where (file, field) and what to do."""


class AdminControl(Protocol):
    """One running proxy, as its administrator sees it."""

    def report(self) -> RegistryReport:
        """What is mounted now."""

    async def apply(self, desired: DesiredMounts) -> ReloadResult:
        """Make ``desired`` what is mounted. Raises SourceError where it must not be."""

    async def check_health(self) -> tuple[HealthReport, ...]:
        """Ping every backend at the same time. Returns within the longest of their timeouts."""

    async def reload(self) -> ReloadResult:
        """Read the source of desired mounts again and apply it. Raises SourceError."""

    async def plan(self) -> Plan:
        """What ``reload`` would do now, without doing it. Raises SourceError."""
