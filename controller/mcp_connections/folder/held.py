"""What a proxy that serves a folder keeps although no valid file declares it: what the files held that are invalid now.

A look at the folder alone sees only what is in the files now. Which mount an invalid file last held can be told by the
names in it, as long as the proxy knows them all; otherwise it may have held any, and nothing is said to be retired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_connections.api.reasons import Reason
from mcp_connections.folder.reader import InvalidFile
from mcp_connections.mounts.plan import Action, Plan, Reject, Retire
from mcp_connections.mounts.report import MountReport, RegistryReport
from mcp_connections.mounts.spec import ConnectionKey

_MISSING = (Reason.SECRET_NOT_FOUND, Reason.KEY_NOT_FOUND)


@dataclass(frozen=True, kw_only=True)
class Held(Action):
    """The mount stays, because the file that declares its connection is invalid."""

    observed: MountReport


@dataclass(frozen=True, kw_only=True)
class Unclear(Action):
    """Whether the mount stays depends on what an invalid file last held."""

    observed: MountReport


def steps_with_held(steps: Plan, invalid: Sequence[InvalidFile], observed: RegistryReport) -> tuple[Action, ...]:
    """The steps of a plan as a proxy takes them that serves the folder and knows what the invalid files last held."""
    if not invalid:
        return steps.actions
    return tuple(_corrected(steps, invalid, _known(observed)))


def _corrected(steps: Plan, invalid: Sequence[InvalidFile], known: frozenset[tuple[str, str]]) -> Iterator[Action]:
    doubtful = [each.file for each in invalid if each.connections is None or not each.connections <= known]
    missing = {_place(step.connection): step for step in steps.of(Reject) if step.rejection.reason in _MISSING}
    retired = {_place(step.connection) for step in steps.of(Retire)}
    for step in steps.actions:
        place = _place(step.connection)
        if isinstance(step, Reject) and place in missing and place in retired:
            continue  # said with the mount
        if not isinstance(step, Retire) or step.cause == "Disabled":
            yield step
        elif place in missing:
            files = _named([each.file for each in invalid])
            reason = f"It stays if what is missing is what {files} held last. Otherwise: {missing[place].reason}"
            yield Unclear(connection=step.connection, observed=step.observed, reason=reason)
        elif step.cause != "Removed":
            yield step
        elif owners := [each.file for each in invalid if place in (each.connections or ())]:
            reason = f"{owners[0]} is invalid: what it last held stays in force."
            yield Held(connection=step.connection, observed=step.observed, reason=reason)
        elif doubtful:
            reason = (
                f"No valid file declares it. It stays if {_named(doubtful)} held it last, and is retired otherwise."
            )
            yield Unclear(connection=step.connection, observed=step.observed, reason=reason)
        else:
            yield step


def _known(observed: RegistryReport) -> frozenset[tuple[str, str]]:
    keys = [mount.connection for mount in observed.mounts]
    keys += [each.connection for each in observed.rejected]
    return frozenset(map(_place, [*keys, *(observed.disabled or ())]))


def _place(connection: ConnectionKey) -> tuple[str, str]:
    return connection.namespace, connection.name


def _named(files: list[str]) -> str:
    return files[0] if len(files) == 1 else f"one of the {len(files)} invalid files"
