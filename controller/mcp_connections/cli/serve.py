"""``mcp-connections serve``: a folder of manifests behind one endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.logs import LogFormat, LogLevel, set_up_logging


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Holds the manifests: *.yaml, *.yml, *.json.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the MCP endpoint. 0: any free one.")] = 8000,
    admin_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the admin surface. 0: any free one. Default: none.")
    ] = None,
    admin_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the bearer token that the admin port asks for.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Between prefix and name. Default: that of the folder's McpProxy, or _.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Not ready unless every connection is; no start with an invalid file.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="Least severe log lines to write.")] = LogLevel.WARNING,
    log_format: Annotated[LogFormat, typer.Option(help="Look of the log lines.")] = LogFormat.TEXT,
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
    ports = Ports(host=host, port=port, admin_port=admin_port, admin_token_file=admin_token_file)
    say = to_log if log_format is LogFormat.JSON else to_terminal
    uvloop.run(serving.run(checked_folder(folder), overrides, ports, say))
