"""``mcp-connections status``: what is mounted and how it is, of one running proxy or of a cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from mcp_connections.cli.failure import CommandError, InputError


def status(
    url: Annotated[
        str | None,
        typer.Option("--url", help="Admin URL of a proxy, such as http://127.0.0.1:8001. Default: a cluster."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the admin token of that proxy.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace in the cluster.")] = "default",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, or ~/.kube/config.")
    ] = None,
) -> None:
    """Show connections and how they are."""
    if url is not None:
        _show_proxy(url, token_file)
    elif token_file is not None:
        raise InputError("--token-file belongs to --url: give the admin URL of the proxy as well.")
    else:
        _show_cluster(None if all_namespaces else namespace, kubeconfig)


def _show_proxy(url: str, token_file: Path | None) -> None:
    from mcp_connections.cli.admin_client import fetch_report, read_token
    from mcp_connections.cli.brief import brief
    from mcp_connections.cli.tables import age, show

    report = asyncio.run(fetch_report(url, read_token(token_file)))
    now = datetime.now(UTC)
    rows: list[tuple[object, ...]] = [
        (
            mount.connection,
            mount.prefix,
            mount.transport,
            mount.catalog.tools,
            mount.ready,
            mount.reason,
            age(mount.since, now),
            "" if mount.ready else brief(mount.message),
        )
        for mount in report.mounts
    ]
    rows += [(one.connection, "", "", "", False, one.reason, "", brief(one.message)) for one in report.rejected]
    message = "spec.enabled is false. Set it to true to have the connection back."
    rows += [(one, "", "", "", False, "Disabled", "", message) for one in report.disabled or ()]
    if not rows:
        typer.echo("Nothing is mounted.")
        return
    show(("connection", "prefix", "transport", "tools", "ready", "reason", "age", "message"), rows)


def _show_cluster(namespace: str | None, kubeconfig: Path | None) -> None:
    from mcp_connections.cli.tables import show

    proxies, connections = asyncio.run(_list(namespace, kubeconfig))
    if not proxies and not connections:
        typer.echo(f"No McpProxy and no McpConnection in {namespace or 'any namespace'}.")
        return
    now = datetime.now(UTC)
    if proxies:
        headers = (
            "namespace",
            "proxy",
            "replicas",
            "connections",
            "ready",
            "available",
            "programmed",
            "age",
            "endpoint",
        )
        show(headers, [_proxy_row(one, now) for one in proxies])
    if proxies and connections:
        typer.echo()
    if connections:
        headers = ("namespace", "connection", "prefix", "transport", "tools", "ready", "reason", "age", "message")
        show(headers, [_connection_row(one, now) for one in connections])


async def _list(namespace: str | None, kubeconfig: Path | None) -> tuple[list[Any], list[Any]]:
    from mcp_connections.operator.cluster import CONNECTION, PROXY, Cluster, ClusterError

    try:
        opened = await Cluster.connect(kubeconfig)
    except ClusterError as error:
        raise CommandError(f"{error} For a folder served with --admin-port: --url http://127.0.0.1:PORT.") from error
    try:
        async with opened as cluster:
            await cluster.check_resources()
            return await cluster.list_all(PROXY, namespace), await cluster.list_all(CONNECTION, namespace)
    except ClusterError as error:
        raise CommandError(str(error)) from error


def _proxy_row(proxy: dict[str, Any], now: datetime) -> tuple[object, ...]:
    status = proxy.get("status") or {}
    counts = status.get("connections") or {}
    return (
        *_identity(proxy),
        status.get("replicas", 0),
        counts.get("total", 0),
        counts.get("ready", 0),
        _condition(status, "Available").get("status", "Unknown"),
        _condition(status, "Programmed").get("status", "Unknown"),
        _age(proxy, now),
        status.get("endpoint"),
    )


def _connection_row(connection: dict[str, Any], now: datetime) -> tuple[object, ...]:
    from mcp_connections.cli.brief import brief

    status = connection.get("status") or {}
    mount = status.get("mount") or {}
    ready = _condition(status, "Ready")
    return (
        *_identity(connection),
        mount.get("prefix"),
        mount.get("transport"),
        (status.get("catalog") or {}).get("tools"),
        ready.get("status", "Unknown"),
        ready.get("reason"),
        _age(connection, now),
        "" if ready.get("status") == "True" else brief(ready.get("message", "")),
    )


def _identity(resource: dict[str, Any]) -> tuple[str, str]:
    return resource["metadata"]["namespace"], resource["metadata"]["name"]


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def _age(resource: dict[str, Any], now: datetime) -> str:
    from mcp_connections.cli.tables import age

    return age(datetime.fromisoformat(resource["metadata"]["creationTimestamp"]), now)
