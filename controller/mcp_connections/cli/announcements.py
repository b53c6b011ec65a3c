"""What the long-running commands tell the person who started them: what is mounted, and what a reload changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import typer

from mcp_connections.cli.one_line import printable
from mcp_connections.mounts.report import CatalogReport, MountReport, RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey, Rejection

Say = Callable[[str], None]

_log = logging.getLogger("mcp_connections")


def to_terminal(line: str) -> None:
    """For people: plain lines on stdout. A full disk or a reader that went away is no reason to stop serving."""
    try:
        typer.echo(printable(line))
    except OSError as error:
        _log.warning("stdout cannot be written (%s), so this was not said there: %s", error.strerror, line)


def to_log(line: str) -> None:
    """For machines: the same lines among the log records."""
    _log.info(line.strip())


def mounted(report: RegistryReport) -> list[str]:
    """One line for each connection."""
    lines = [mount_line(mount) for mount in report.mounts] + [_rejected_line(one) for one in report.rejected]
    return lines or ["  nothing is mounted"]


def reloaded(result: ReloadResult, report: RegistryReport, *, rejected_before: Collection[Rejection]) -> list[str]:
    """What a reload changed, one line each; nothing where it changed nothing."""
    mounts = {str(mount.connection): mount for mount in report.mounts}
    replaced = set(map(str, result.replaced))
    lines = [_change("added", connection, mounts) for connection in result.added]
    lines += [_change("replaced", connection, mounts) for connection in result.replaced]
    lines += [
        f"  retired   {one.connection}  {one.reason}, {_calls(one.in_flight)}"
        for one in result.retired
        if str(one.connection) not in replaced
    ]
    lines += [_rejected_line(one) for one in result.rejected if one not in rejected_before]
    return lines


def mount_line(mount: MountReport) -> str:
    """One connection: what it offers, or what it failed on."""
    verb = "ready" if mount.ready else "failed" if mount.attempted else "waiting"
    return f"  {verb:<8}  {mount.connection}  {_state(mount)}"


def _change(verb: str, connection: ConnectionKey, mounts: dict[str, MountReport]) -> str:
    mount = mounts.get(str(connection))
    return f"  {verb:<8}  {connection}  {_state(mount) if mount else 'gone again'}"


def _rejected_line(rejection: Rejection) -> str:
    return f"  rejected  {rejection.connection}  {rejection.reason}: {rejection.message}"


def _state(mount: MountReport) -> str:
    if mount.ready:
        names = f"as {mount.prefix!r}" if mount.prefix else "under its own names"
        return f"{mount.transport} {names}: {_offer(mount.catalog)}"
    return f"{mount.transport}: {mount.reason}: {mount.message}"


def _offer(catalog: CatalogReport) -> str:
    counts = {
        "tool": catalog.tools,
        "resource": catalog.resources,
        "resource template": catalog.resource_templates,
        "prompt": catalog.prompts,
    }
    offered = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count]
    left_out = [f"{len(catalog.skipped)} left out"] if catalog.skipped else []
    return ", ".join(offered + left_out) or "no tools, resources or prompts"


def _calls(in_flight: int) -> str:
    return f"{in_flight} calls in flight may finish" if in_flight else "no calls in flight"
