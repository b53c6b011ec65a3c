"""Where the messages of a legacy SSE session are posted to (MCP 2024-11-05, basic/transports, "HTTP with SSE").

The lean client of streamable HTTP posts them: it writes in the moment in which it takes an idle connection, so that a
message never meets one that the backend has closed meanwhile. A general client cannot say whether such a message was
executed, and so whether it may be sent once more.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple

from aiohttp.abc import AbstractCookieJar
from multidict import CIMultiDict
from yarl import URL

from mcp_connections.proxy.channels.backend_client import (
    CLOSE_SECONDS,
    MAX_REDIRECTS,
    RedirectRefused,
    fault_of,
    redirect_target,
    refusal,
)
from mcp_connections.proxy.channels.channel import SessionLost, Unreachable
from mcp_connections.proxy.channels.http_client import HttpClient, HttpFault, HttpResponse
from mcp_connections.proxy.channels.redaction import Redactor

_EXCERPT: Final = 2048
"""Bytes of a refusal that go into the text of the fault, at most."""


class Outcome(NamedTuple):
    """What became of a message."""

    status: int
    said: bytes
    """The beginning of what a refusal says."""


class MessageEndpoint:
    """One endpoint on the origin of the event stream, and the connections to it."""

    def __init__(
        self,
        url: URL,
        *,
        where: str,
        headers: dict[str, str],
        cookies: AbstractCookieJar,
        tls: ssl.SSLContext | None,
        connect_timeout: float,
        redactor: Redactor,
    ) -> None:
        """``connect_timeout`` in seconds. ``where`` begins every fault's text. ``cookies`` are those of the stream: a
        load balancer sends the messages by them to the server that holds it (RFC 6265)."""
        self._url = url
        self._where = where
        self._redactor = redactor
        self._cookies = cookies
        self._headers = CIMultiDict(headers)
        self._headers["Content-Type"] = "application/json"
        self._client = HttpClient(str(url), tls=tls, connect_timeout=connect_timeout)

    def add_header(self, name: str, value: str) -> None:
        """Send this with every later message."""
        self._headers[name] = value

    async def post(self, body: bytes, lines: bytes, credential: dict[str, str]) -> Outcome:
        """Hand over one message, with further header lines and headers of its own. Raises ChannelError; the time it
        may take is the caller's to bound.

        The status alone accepts it. The protocol has nothing to say in the body, so nothing waits for its end.
        """
        response = await self._send(body, lines, credential)
        try:
            return Outcome(response.status, await _beginning(response) if response.status >= 300 else b"")
        finally:
            response.release()

    def check(self, outcome: Outcome) -> None:
        """Raise the ChannelError that the answer to a message stands for, if it is no success."""
        if outcome.status == 404:
            raise SessionLost(f"{self._where}: no longer knows the session (HTTP 404)")
        if outcome.status >= 300:
            raise refusal(outcome.status, self._where, self._redactor.excerpt(outcome.said))

    async def _send(self, body: bytes, lines: bytes, credential: dict[str, str]) -> HttpResponse:
        url = self._url
        try:
            for _ in range(MAX_REDIRECTS):
                head = self._head(url, len(body), credential)
                response = await self._client.request(head + lines + b"\r\n" + body, head_only=True)
                self._keep_cookies(response, url)
                target = redirect_target(response.status, response.header(b"location"), url, "POST")
                if target is None:
                    return response
                response.release()
                url = target
        except HttpFault as fault:
            raise Unreachable(f"{self._where}: {fault.advised}", executed=fault.executed) from None
        except RedirectRefused as refused:
            raise fault_of(refused, self._where, connecting=False) from None
        raise fault_of(RedirectRefused("redirects in circles"), self._where, connecting=False) from None

    def _head(self, url: URL, length: int, credential: dict[str, str]) -> bytes:
        headers = self._headers.copy()
        headers.update(credential)
        headers.setdefault("Host", url.host_port_subcomponent or "")
        headers["Content-Length"] = str(length)
        kept = [f"{name}={morsel.coded_value}" for name, morsel in self._cookies.filter_cookies(url).items()]
        if kept:
            headers["Cookie"] = "; ".join(filter(None, [headers.get("Cookie"), *kept]))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {url.raw_path_qs} HTTP/1.1\r\n{lines}".encode()

    def _keep_cookies(self, response: HttpResponse, url: URL) -> None:
        for line in response.header(b"set-cookie").splitlines():
            with suppress(CookieError):
                self._cookies.update_cookies(SimpleCookie(line), url)

    def close(self) -> None:
        """Close every connection; messages under way fail."""
        self._client.close()


async def _beginning(response: HttpResponse) -> bytes:
    """What a refusal says, as far as it comes soon. Never raises."""
    said = b""
    with suppress(HttpFault, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            while len(said) < _EXCERPT and (chunk := await response.read()):
                said += chunk
    return said[:_EXCERPT]
