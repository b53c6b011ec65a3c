"""``mcp-connections operator``: the controller that watches the resources of a cluster."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.cli.logs import LogFormat, LogLevel, set_up_logging


def operator(
    namespaces: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Serve this namespace only; may be repeated.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Image of proxy pods whose McpProxy names none.")] = None,
    liveness_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of GET /healthz, on every interface. 0: none.")
    ] = 8080,
    default_proxy: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="ConfigMap with an McpProxy to make, under the key mcpproxy.yaml."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Least severe log lines to write.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="Look of the log lines.")] = LogFormat.TEXT,
) -> None:
    """Run the operator of a cluster.

    It uses the credentials of its pod, or those of KUBECONFIG."""
    from mcp_connections.operator.main import DEFAULT_IMAGE, ClusterError, ConfigMapName, OperatorOptions, run_operator

    set_up_logging(log_level, log_format)
    options = OperatorOptions(
        namespaces=tuple(namespaces or ()),
        image=image or DEFAULT_IMAGE,
        liveness_port=liveness_port or None,
        default_proxy=ConfigMapName(*_namespace_and_name(default_proxy)) if default_proxy else None,
    )
    try:
        asyncio.run(run_operator(options))
    except ClusterError as error:
        raise CommandError(str(error)) from error


def _namespace_and_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise InputError(f"--default-proxy takes NAMESPACE/NAME of a ConfigMap, not {text!r}.")
    return namespace, name
