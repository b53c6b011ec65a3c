"""The process in the pod of a stdio connection: the bridge served, its token followed, its end awaited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from mcp_connections.cli.admin_client import read_token
from mcp_connections.cli.announcements import Say
from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.cli.running import run_until, shown_url, stop_signal
from mcp_connections.mounts.spec import Access
from mcp_connections.proxy.access.host_guard import is_loopback
from mcp_connections.proxy.bridge.endpoint import BridgeEndpoint
from mcp_connections.proxy.bridge.program import Program
from mcp_connections.proxy.server.listening import PortError, bind, serving

LOOK_AGAIN: Final = 2.0
"""Seconds between two looks at the token: a kubelet that brings another one replaces the file."""
OWN_PREFIX: Final = "MCP_CONNECTIONS_"
"""Of variables that are for this program alone."""

_log = logging.getLogger(__name__)


def child_environment(variables: Mapping[str, str], secret: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of the program, and the values among them that are to be kept out of messages."""
    names = set(secret)
    environment = {
        name: value.strip() if name in names else value
        for name, value in variables.items()
        if not name.startswith(OWN_PREFIX)
    }
    return environment, tuple(environment[name] for name in sorted(names) if name in environment)


async def run(
    program: Program, *, host: str, port: int, token_file: Path | None, drain_seconds: float, say: Say
) -> None:
    """Serve ``program`` until told to stop. Raises CommandError."""
    stop = stop_signal()
    if token_file is None and not is_loopback(host):
        raise InputError(
            f"At {host} other machines can reach the bridge, and whoever does can use the program. Give --token-file, "
            "or --host 127.0.0.1."
        )
    endpoint = BridgeEndpoint(program, _access(read_token(token_file)), bind=host)
    try:
        listener = bind(host, port, "--port")
        try:
            async with serving(endpoint, listener, lifespan=False, drain_seconds=drain_seconds):
                say(f"endpoint  {shown_url(host, listener.getsockname()[1])}/mcp")
                try:
                    await run_until(stop, _follow(token_file, endpoint))
                finally:
                    endpoint.close_streams()
        finally:
            await endpoint.aclose()
    except PortError as error:
        raise CommandError(f"{error}.") from error


async def _follow(token_file: Path | None, endpoint: BridgeEndpoint) -> None:
    """Ask for what the file says from now on. One that says nothing usable changes nothing."""
    complaint = ""
    while True:
        await asyncio.sleep(LOOK_AGAIN)
        try:
            access = _access(await asyncio.to_thread(read_token, token_file))
        except InputError as error:
            if str(error) != complaint:
                _log.warning("%s The token stays as it is.", error)
            complaint = str(error)
            continue
        complaint = ""
        if access != endpoint.access:
            endpoint.access = access
            _log.info("the token has changed")


def _access(token: str | None) -> Access:
    return Access(method="bearer", bearer_token=token) if token else Access(method="none")
