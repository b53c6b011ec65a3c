"""``mcp-connections bridge``: what runs in the pod of a stdio connection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.logs import LogFormat, LogLevel, set_up_logging
from mcp_connections.cli.options import Host, LeastSevere, Look, Port


def bridge(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The program and its arguments.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the bearer token that is asked for; it may change at any time."),
    ] = None,
    connection: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The connection that the program belongs to, for messages.")
    ] = "bridge",
    working_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory to run the program in. Default: this one.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Variable whose value comes from a Secret: white space around it is removed, and it is kept out of"
            " messages; may be repeated.",
        ),
    ] = None,
    drain: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="What requests in progress get when told to stop.")
    ] = 10.0,
    log_level: LeastSevere = LogLevel.INFO,
    log_format: Look = LogFormat.TEXT,
) -> None:
    """Serve one stdio program over HTTP.

    Each client session gets a process of its own, with all variables of this one."""
    import uvloop

    from mcp_connections.cli import bridging
    from mcp_connections.cli.announcements import to_log
    from mcp_connections.proxy.bridge.program import Program

    set_up_logging(log_level, log_format)
    environment, secrets = bridging.child_environment(os.environ, secret or ())
    program = Program(
        label=connection,
        command=tuple(command),
        working_dir=working_dir,
        environment=environment,
        secrets=secrets,
    )
    uvloop.run(bridging.run(program, host=host, port=port, token_file=token_file, drain_seconds=drain, say=to_log))
