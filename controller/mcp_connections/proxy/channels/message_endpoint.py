"""Where the messages of a legacy SSE session are posted to (MCP 2024-11-05, basic/transports, "HTTP with SSE").

The lean client of streamable HTTP posts them: it writes in the moment in which it takes an idle connection, so that a
message never meets one that the backend has closed meanwhile. A general client cannot say whether such a message was
executed, and so whether it may be sent once more.
"""

from __future__ import annotations

import ssl
from typing import Final

from multidict import CIMultiDict
from yarl import URL

from mcp_connections.proxy.channels.backend_client import (
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


class MessageEndpoint:
    """One endpoint on the origin of the event stream, and the connections to it."""

    def __init__(
        self,
        url: URL,
        *,
        where: str,
        headers: dict[str, str],
        tls: ssl.SSLContext | None,
        connect_timeout: float,
        redactor: Redactor,
    ) -> None:
        """``connect_timeout`` in seconds. ``where`` begins every fault's text."""
        self._url = url
        self._where = where
        self._redactor = redactor
        self._headers = CIMultiDict(headers)
        self._headers["Content-Type"] = "application/json"
        self._client = HttpClient(str(url), tls=tls, connect_timeout=connect_timeout)

    def add_header(self, name: str, value: str) -> None:
        """Send this with every later message."""
        self._headers[name] = value

    async def post(self, body: bytes) -> None:
        """Hand over one message. Raises ChannelError; the time it may take is the caller's to bound."""
        response = await self._send(body)
        response.release()
        if response.status == 404:
            raise SessionLost(f"{self._where}: no longer knows the session (HTTP 404)")
        if response.status >= 300:
            raise refusal(response.status, self._where, self._redactor.excerpt(response.body[:_EXCERPT]))

    async def _send(self, body: bytes) -> HttpResponse:
        url = self._url
        try:
            for _ in range(MAX_REDIRECTS):
                response = await self._client.request(self._head(url, len(body)) + body)
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

    def _head(self, url: URL, length: int) -> bytes:
        headers = self._headers.copy()
        headers.setdefault("Host", url.host_port_subcomponent or "")
        headers["Content-Length"] = str(length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {url.raw_path_qs} HTTP/1.1\r\n{lines}\r\n".encode()

    def close(self) -> None:
        """Close every connection; messages under way fail."""
        self._client.close()
