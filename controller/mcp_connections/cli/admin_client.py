"""Asking a running proxy, by the URL of its admin port."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientConnectorError

from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.mounts.report import RegistryReport
from mcp_connections.operator.admin_client import AdminAddress, AdminClient, AdminError
from mcp_connections.proxy.channels.os_faults import cause_of


def read_token(path: Path | None) -> str | None:
    """The admin token in a file, without the white space around it. Raises InputError."""
    if path is None:
        return None
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise InputError(f"cannot read the token file {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the token file {path} holds characters outside ASCII. Write a token into it.") from error
    if not token:
        raise InputError(
            f"the token file {path} is empty. Write a token into it, for example of `openssl rand -hex 32`."
        )
    return token


async def fetch_report(url: str, token: str | None) -> RegistryReport:
    """What the proxy with its admin port at ``url`` reports. Raises CommandError."""
    address = admin_address(url)
    try:
        async with AdminClient() as client:
            return await client.report(address, token or "")
    except AdminError as error:
        raise CommandError(_told(error, address, token)) from error


def _told(error: AdminError, address: AdminAddress, token: str | None) -> str:
    """What went wrong and what to do, each once: a proxy that refuses gives advice of its own."""
    if isinstance(error.__cause__, ClientConnectorError):
        return (
            f"{address.mounts_url}: cannot connect to {error.__cause__.host}:{error.__cause__.port}: "
            f"{cause_of(error.__cause__.os_error)}. Start serve with --admin-port, and give the URL that it prints as "
            "admin."
        )
    if error.status == 401:
        refused = f"{address.mounts_url} answers HTTP 401."
        if token:
            return f"{refused} The token in the --token-file is not that of serve's --admin-token-file."
        return f"{refused} Give the file that holds its token: --token-file FILE."
    if error.status == 403:
        return str(error)
    return f"{str(error).rstrip('.')}. Check that the URL is that of an admin port."


def admin_address(url: str) -> AdminAddress:
    """Host and port of an admin URL such as ``http://127.0.0.1:8001``. Raises InputError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is not a URL: {error}. Give one such as http://127.0.0.1:8001.") from error
    if parts.scheme != "http" or not host or parts.path.rstrip("/") not in {"", "/admin/v1/mounts"}:
        raise InputError(f"{url!r} is not the URL of an admin port. Give one such as http://127.0.0.1:8001.")
    return AdminAddress(host, port or 80)
