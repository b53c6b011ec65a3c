"""``mcp-connections check``: whether an endpoint answers as an MCP server, and how many tools it has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn
from urllib.parse import urlsplit

import typer

from mcp_connections import __version__
from mcp_connections.cli.failure import CommandError, InputError
from mcp_connections.cli.one_line import printable

if TYPE_CHECKING:
    from aiohttp import ClientSession

PROTOCOL: Final = "2025-06-18"
REQUEST_SECONDS: Final = 30.0
PAUSE: Final = 1.0
"""Seconds between two attempts."""
MAX_PAGES: Final = 1000
SESSION: Final = "Mcp-Session-Id"
MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of one answer."""
MAX_REFUSAL: Final = 4096
"""Bytes of a refusal that are looked at."""
MAX_REASON: Final = 200
"""Characters of it that are told."""


def check(
    url: Annotated[str, typer.Argument(help="MCP endpoint, such as http://127.0.0.1:8000/mcp.")],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the token that clients present.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to go on trying.")] = 0,
) -> None:
    """Initialise a session with an endpoint and list its tools."""
    from mcp_connections.cli.admin_client import read_token

    given, url = url, url if "://" in url else f"http://{url}"
    if not url.startswith(("http://", "https://")) or not _has_host(url):
        raise InputError(f"{given!r} is not a URL. Give one such as http://127.0.0.1:8000/mcp.")
    name, tools = asyncio.run(_check(url, read_token(token_file), wait))
    typer.echo(f"{url} is {name}, with {tools} tool{'' if tools == 1 else 's'}.")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


async def _check(url: str, token: str | None, wait: float) -> tuple[str, int]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await _ask(url, token)
        except (_NotYet, OSError, TimeoutError) as error:
            if loop.time() >= deadline:
                reason = str(error) or f"no answer within {REQUEST_SECONDS:.0f} s"
                raise CommandError(f"{url}: {reason}. See whether the proxy is up and ready.") from error
        await asyncio.sleep(PAUSE)


async def _ask(url: str, token: str | None) -> tuple[str, int]:
    """Name of the server and number of its tools. Raises CommandError, and _NotYet where trying again may help."""
    import aiohttp

    from mcp_connections.proxy.channels.os_faults import cause_of

    async with aiohttp.ClientSession() as http:
        endpoint = _Endpoint(http, url, token)
        try:
            return await endpoint.hello(), await endpoint.tools()
        except aiohttp.ClientConnectorCertificateError as error:
            cause = cause_of(error.certificate_error) if isinstance(error.certificate_error, OSError) else str(error)
            raise CommandError(f"{url}: {cause}. Check the host name in the URL.") from error
        except aiohttp.ClientConnectorError as error:
            cause = cause_of(error.os_error)
            raise _NotYet(f"cannot connect to {error.host}:{error.port}: {cause}") from error
        except aiohttp.ClientError as error:
            raise _NotYet(str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CommandError(f"{url} answers, but not as MCP has it: {error!r}. Check the URL.") from error
        finally:
            with contextlib.suppress(aiohttp.ClientError):
                await endpoint.bye()


class _Endpoint:
    """One session, over streamable HTTP."""

    def __init__(self, http: ClientSession, url: str, token: str | None) -> None:
        self._http = http
        self._url = url
        self._headers = {"Accept": "application/json, text/event-stream"}
        self._has_token = token is not None
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    async def hello(self) -> str:
        """Initialise, and return the server's name."""
        client = {"name": "mcp-connections check", "version": __version__}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        result = await self._request("initialize", params)
        self._headers["MCP-Protocol-Version"] = str(result["protocolVersion"])
        await self._post({"method": "notifications/initialized"})
        return str(result["serverInfo"]["name"])

    async def tools(self) -> int:
        """Number of tools, over all pages."""
        found, cursor = 0, None
        for _ in range(MAX_PAGES):
            page = await self._request("tools/list", {"cursor": cursor} if cursor else {})
            found += len(page["tools"])
            if not (cursor := page.get("nextCursor")):
                break
        return found

    async def bye(self) -> None:
        """End the session, if there is one."""
        if SESSION in self._headers:
            async with self._http.delete(self._url, headers=self._headers):
                pass

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        message = await self._post({"id": 1, "method": method, "params": params})
        if "error" in message:
            raise CommandError(f"{self._url} answers {method} with an error: {message['error']['message']}.")
        return message["result"]

    async def _post(self, message: Mapping[str, Any]) -> Any:
        async with self._http.post(
            self._url, json={"jsonrpc": "2.0", **message}, headers=self._headers, allow_redirects=False
        ) as response:
            if response.status not in (200, 202):
                self._refuse(response.status, await response.content.read(MAX_REFUSAL))
            if session := response.headers.get(SESSION):
                self._headers[SESSION] = session
            if response.status == 202:
                return {}
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > MAX_ANSWER:
                    raise CommandError(f"{self._url} answers with more than {MAX_ANSWER} bytes. Check the URL.")
            return _answer(bytes(body)) if response.content_type == "text/event-stream" else json.loads(body)

    def _refuse(self, status: int, body: bytes) -> NoReturn:
        answers = f"{self._url} answers HTTP {status}"
        if status in (401, 403) and not self._has_token:
            raise CommandError(f"{answers}: give the token of a client with --token-file.")
        if status in (401, 403):
            what = "the token in --token-file is not accepted" if status == 401 else "the token may not do this"
            said = f": {reason}" if (reason := _reason(body)) else ""
            raise CommandError(f"{answers}: {what}{said}. Give the token of a client of this endpoint.")
        if status >= 500 or status == 429:
            raise _NotYet(f"it answers HTTP {status}")
        if status == 405:
            raise CommandError(
                f"{answers} to POST. It may be an endpoint of the older transport HTTP+SSE, which check does not speak;"
                " else check the URL: the path of a proxy is /mcp."
            )
        raise CommandError(f"{answers}. Check the URL: the path of a proxy is /mcp.")


def _reason(body: bytes) -> str:
    """Why a request was refused, in the server's words: of an error of JSON-RPC, OAuth or other JSON, else the text."""
    text = body.decode(errors="replace")
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(text)
        error = data.get("error") if isinstance(data, dict) else None
        holder = error if isinstance(error, dict) else data if isinstance(data, dict) else {}
        found = [holder.get(key) for key in ("message", "error_description", "detail", "error")]
        text = next((each for each in found if isinstance(each, str)), "")
    line = " ".join(text.split())
    return "" if line.startswith("<") else textwrap.shorten(printable(line), MAX_REASON, placeholder=" …").rstrip(".")


def _answer(stream: bytes) -> Any:
    """The event that answers a request. Notifications may come before it."""
    from mcp_connections.proxy.wire.event_stream import EventStreamParser

    for event in EventStreamParser(MAX_ANSWER).feed(stream):
        message = json.loads(event.data) if event.data.strip() else {}
        if "result" in message or "error" in message:
            return message
    raise _NotYet("the answer broke off")


class _NotYet(Exception):
    """It may work later."""
