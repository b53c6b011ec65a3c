"""``mcp-connections plan``: what serving a folder would do, without doing it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_connections.cli.failure import BAD_INPUT, InputError

if TYPE_CHECKING:
    from mcp_connections.mounts.plan import Action
    from mcp_connections.mounts.report import RegistryReport

LEFT_OUT = "These files are left out of the plan."
HELD = "These files are invalid; a proxy that serves the folder keeps what they last held while they were valid."
NO_START = "One of them may hide the McpProxy, which says who may use the endpoint: serve does not start with it."


def plan(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Holds the manifests: *.yaml, *.yml, *.json.")],
    against: Annotated[
        str | None, typer.Option(metavar="URL", help="Admin URL of a running proxy. Default: one that has nothing yet.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the admin token of that proxy.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Between prefix and name. Default: that of the folder's McpProxy, or _.")
    ] = None,
) -> None:
    """Show what serving a folder would change, and why.

    Ends with 2 where a manifest is invalid or a connection is rejected.
    """
    from mcp_connections.cli.manifests import Overrides, checked_folder, checked_separator, desired
    from mcp_connections.cli.tables import show
    from mcp_connections.folder.held import steps_with_held
    from mcp_connections.folder.reader import Folder
    from mcp_connections.mounts.plan import Reject
    from mcp_connections.mounts.plan import plan as compare
    from mcp_connections.proxy.admin.control import SourceError

    if token_file is not None and against is None:
        raise InputError("--token-file belongs to --against: give the admin URL of the proxy as well.")
    overrides = Overrides(separator=checked_separator(separator))
    state = Folder(checked_folder(folder)).read()
    for note in state.notes:
        typer.echo(note, err=True)
    try:
        wanted = desired(state, overrides)
    except SourceError as error:
        raise InputError("\n".join([*map(str, state.errors), str(error)])) from error
    observed = None if against is None else _fetch(against, token_file)
    steps = compare(wanted, observed)
    actions = steps.actions if observed is None else steps_with_held(steps, state.invalid, observed)
    if not state.proxy_errors:  # otherwise the settings are those of a file that is invalid now
        for change in steps.settings:
            typer.echo(change)
    if actions:
        show(
            ("action", "connection", "prefix", "reason"),
            [(_name(step), step.connection, _prefix(step), step.reason) for step in actions],
        )
    elif not state.errors:
        typer.echo(f"No connections in {folder}, and none mounted.")
    if state.errors:
        note = LEFT_OUT if observed is None else HELD
        raise InputError("\n".join([*map(str, state.errors), note, *([NO_START] if state.proxy_errors else [])]))
    if steps.of(Reject):
        raise typer.Exit(BAD_INPUT)


def _name(step: Action) -> str:
    from mcp_connections.folder.held import Held

    return "keep" if isinstance(step, Held) else type(step).__name__.lower()


def _prefix(step: Action) -> str:
    from mcp_connections.folder.held import Held, Unclear
    from mcp_connections.mounts.plan import Add, Keep, Replace, Retire

    match step:
        case Add() | Keep() | Replace():
            return step.spec.prefix
        case Retire() | Held() | Unclear():
            return step.observed.prefix
    return ""


def _fetch(url: str, token_file: Path | None) -> RegistryReport:
    # An HTTP client takes longer to import than the rest of the command takes to run.
    from mcp_connections.cli.admin_client import fetch_report, read_token

    return asyncio.run(fetch_report(url, read_token(token_file)))
