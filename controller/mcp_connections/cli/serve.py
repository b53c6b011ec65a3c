"""``mcp-connections serve``: a folder of manifests behind one endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.logs import LogFormat, LogLevel, set_up_logging
from mcp_connections.cli.options import (
    AdminPort,
    AdminTokenFile,
    AllowUnauthenticated,
    Host,
    LeastSevere,
    Look,
    Port,
)


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Holds the manifests: *.yaml, *.yml, *.json.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    admin_port: AdminPort = None,
    admin_token_file: AdminTokenFile = None,
    allow_unauthenticated: AllowUnauthenticated = False,
    separator: Annotated[
        str | None, typer.Option(help="Between prefix and name. Default: that of the folder's McpProxy, or _.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Not ready unless every connection is; no start with an invalid file.")
    ] = False,
    log_level: LeastSevere = LogLevel.WARNING,
    log_format: Look = LogFormat.TEXT,
) -> None:
    """Serve the connections declared in a folder.

    A change of a file is in effect within a second. An invalid file is named, and what it last held stays in force.
    """
    import uvloop

    from mcp_connections.cli import serving
    from mcp_connections.cli.announcements import to_log, to_terminal
    from mcp_connections.cli.manifests import Overrides, checked_folder, checked_separator
    from mcp_connections.cli.running import Ports

    set_up_logging(log_level, log_format)
    overrides = Overrides(separator=checked_separator(separator), strict=strict)
    ports = Ports(
        host=host,
        port=port,
        admin_port=admin_port,
        admin_token_file=admin_token_file,
        allow_unauthenticated=allow_unauthenticated,
    )
    say = to_log if log_format is LogFormat.JSON else to_terminal
    uvloop.run(serving.run(checked_folder(folder), overrides, ports, say))
