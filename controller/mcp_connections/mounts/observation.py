"""One moment of one proxy: what was desired and what all its replicas report, indexed by connection.

Status is computed for every connection at every reconcile; with a thousand of them nothing may search a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mcp_connections.api.connection_status import PodStatus
from mcp_connections.mounts.report import MountReport, RegistryReport, RetiredMount
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts


class Observation:
    """Desired mounts beside the reports of all replicas.

    ``reports`` has one entry for each replica, None where it did not answer, in an order that does not change by
    itself (such as that of the pods' names). ``silent`` is how many of those that did not answer may all the same be
    serving clients, because they are ready otherwise: what they have mounted is not known. ``pods`` are those that run
    the commands of connections.
    """

    def __init__(
        self,
        desired: DesiredMounts,
        reports: Sequence[RegistryReport | None],
        *,
        silent: int = 0,
        pods: Mapping[ConnectionKey, PodStatus] | None = None,
    ) -> None:
        self.silent = silent
        self.pods = pods or {}
        self.desired = desired
        self.specs = {spec.connection: spec for spec in desired.mounts}
        self.disabled = frozenset(desired.disabled)
        self.rejected = {each.connection: each for each in desired.rejected}
        self.expected = len(reports)
        """Replicas that were asked."""
        self.answers = tuple(report for report in reports if report is not None)
        """Reports of those that answered."""
        self.replicas = tuple(report for report in self.answers if report.ready) or self.answers
        """Those that count: the ready ones, or while none is ready, all that answered. A new replica must not take
        anything back while it starts, and with startPolicy Strict none is ready just when it has most to tell."""
        self.retired: dict[ConnectionKey, list[RetiredMount]] = defaultdict(list)
        """Retired mounts in all answers."""
        self._mounts: dict[tuple[ConnectionKey, str], list[MountReport]] = defaultdict(list)
        self._present: set[ConnectionKey] = set()
        for report in self.replicas:
            for mount in report.mounts:
                self._mounts[mount.connection, mount.fingerprint].append(mount)
        for report in self.answers:
            self._present.update(mount.connection for mount in report.mounts)
            for retired in report.retired:
                self.retired[retired.connection].append(retired)

    @property
    def is_complete(self) -> bool:
        """Every replica answered."""
        return len(self.answers) == self.expected

    @property
    def known(self) -> frozenset[ConnectionKey]:
        """All connections that the proxy has, mounted or not."""
        return frozenset(self.specs) | self.disabled | frozenset(self.rejected)

    def mounts(self, key: ConnectionKey) -> list[MountReport]:
        """The mount with the desired fingerprint in every replica that counts and has it."""
        spec = self.specs.get(key)
        return self._mounts.get((key, spec.fingerprint), []) if spec else []

    def is_leaving(self, key: ConnectionKey) -> bool:
        """Some replica still has a mount of the connection, or finishes calls in a retired one. Tells something only
        of connections that should have none."""
        return key in self._present or any(each.state == "Draining" for each in self.retired.get(key, ()))
