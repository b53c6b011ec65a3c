"""``mcp-connections proxy``: what runs in a proxy pod."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.failure import InputError
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


def proxy(
    mounts: Annotated[
        Path, typer.Option("--mounts", metavar="DIR", help="Holds mounts.json.gz, as the operator wrote it.")
    ],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    admin_port: AdminPort = None,
    admin_token_file: AdminTokenFile = None,
    allow_unauthenticated: AllowUnauthenticated = False,
    pod_ip: Annotated[
        str | None,
        typer.Option(
            envvar="POD_IP",
            metavar="ADDRESS",
            help="Where other replicas reach this one; with the admin token it lets sessions work through any of them.",
        ),
    ] = None,
    log_level: LeastSevere = LogLevel.INFO,
    log_format: Look = LogFormat.TEXT,
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
    ports = Ports(
        host=host,
        port=port,
        admin_port=admin_port,
        admin_token_file=admin_token_file,
        allow_unauthenticated=allow_unauthenticated,
    )
    uvloop.run(pod.run(mounts, ports, to_log, pod_ip=pod_ip))
