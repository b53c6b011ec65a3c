"""``mcp-connections proxy``: what runs in a proxy pod."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.failure import InputError
from mcp_connections.cli.logs import LogFormat, LogLevel, set_up_logging


def proxy(
    mounts: Annotated[
        Path, typer.Option("--mounts", metavar="DIR", help="Holds mounts.json.gz, as the operator wrote it.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the MCP endpoint. 0: any free one.")] = 8000,
    admin_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the admin surface. 0: any free one. Default: none.")
    ] = None,
    admin_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the bearer token that the admin port asks for.")
    ] = None,
    pod_ip: Annotated[
        str | None,
        typer.Option(
            envvar="POD_IP",
            metavar="ADDRESS",
            help="Where other replicas reach this one; with the admin token it lets sessions work through any of them.",
        ),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Least severe log lines to write.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="Look of the log lines.")] = LogFormat.TEXT,
) -> None:
    """Run what a proxy pod runs.

    Serves what an operator wrote into files and pushes to the admin port."""
    import uvloop

    from mcp_connections.cli import pod
    from mcp_connections.cli.announcements import to_log
    from mcp_connections.cli.running import Ports

    set_up_logging(log_level, log_format)
    if not mounts.is_dir():
        raise InputError(f"{mounts} is not a folder. Mount the Secret with the key mounts.json.gz there.")
    ports = Ports(host=host, port=port, admin_port=admin_port, admin_token_file=admin_token_file)
    uvloop.run(pod.run(mounts, ports, to_log, pod_ip=pod_ip))
