"""Options that the commands share which serve an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.logs import LogFormat, LogLevel

Host = Annotated[str, typer.Option(help="Address to listen at.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the MCP endpoint. 0: any free one.")]
AdminPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port of the admin surface. 0: any free one. Default: none.")
]
AdminTokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Holds the bearer token that the admin port asks for.")
]
AllowUnauthenticated = Annotated[
    bool,
    typer.Option(
        "--allow-unauthenticated",
        help="Serve other machines even where no spec.auth says who may use the endpoint.",
    ),
]
LeastSevere = Annotated[LogLevel, typer.Option(help="Least severe log lines to write.")]
Look = Annotated[LogFormat, typer.Option(help="Look of the log lines.")]
