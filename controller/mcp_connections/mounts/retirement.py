"""Retired mounts as status remembers them, merged over all replicas and with what an earlier status said.

A registry forgets when its process ends; status does not. What a process that is gone left as Draining is closed with
it. What a replica that does not answer may still drain stays Draining: nothing says Closed before it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from mcp_connections.api.connection_status import MAX_RETIRED, ConnectionRef, RetiredMountStatus
from mcp_connections.mounts.report import RetiredMount

_Identity = tuple[str, str, str, str]


def retired_mounts(
    observed: Iterable[RetiredMount], previous: Sequence[RetiredMountStatus], *, complete: bool
) -> tuple[RetiredMountStatus, ...]:
    """The last 20 retired mounts, newest last: one entry for each connection and fingerprint.

    ``observed`` holds what all replicas that answered report, ``complete`` says whether that is all of them.
    """
    entries = {_status_identity(entry): _without_witness(entry, complete) for entry in previous}
    for identity, mounts in _grouped(observed).items():
        entries[identity] = _merged(mounts, entries.get(identity), complete)
    ordered = sorted(entries.values(), key=lambda entry: (entry.retired_at, _status_identity(entry)))
    return tuple(ordered[-MAX_RETIRED:])


def _grouped(observed: Iterable[RetiredMount]) -> dict[_Identity, list[RetiredMount]]:
    groups: dict[_Identity, list[RetiredMount]] = {}
    for mount in observed:
        key = mount.connection
        groups.setdefault((key.namespace, key.name, key.uid, mount.fingerprint), []).append(mount)
    return groups


def _without_witness(entry: RetiredMountStatus, complete: bool) -> RetiredMountStatus:
    if entry.state == "Closed" or not complete:
        return entry
    return entry.model_copy(update={"state": "Closed", "in_flight": 0})


def _merged(mounts: list[RetiredMount], before: RetiredMountStatus | None, complete: bool) -> RetiredMountStatus:
    latest = max(mounts, key=lambda mount: mount.retired_at)
    draining = [mount for mount in mounts if mount.state == "Draining"]
    retired_at = _whole_seconds(latest.retired_at)
    known_closed = complete or (before is not None and before.state == "Closed" and before.retired_at >= retired_at)
    return RetiredMountStatus(
        connection=ConnectionRef(
            namespace=latest.connection.namespace, name=latest.connection.name, uid=latest.connection.uid
        ),
        fingerprint=latest.fingerprint,
        reason=latest.reason,
        retired_at=retired_at,
        in_flight=sum(mount.in_flight for mount in draining),
        state="Draining" if draining or not known_closed else "Closed",
    )


def _whole_seconds(moment: datetime) -> datetime:
    """As status holds it, so that the order is the same whether an entry was observed or read back."""
    return moment.astimezone(UTC).replace(microsecond=0)


def _status_identity(entry: RetiredMountStatus) -> _Identity:
    return entry.connection.namespace, entry.connection.name, entry.connection.uid, entry.fingerprint
