"""The aiohttp side of the transports that keep a connection of their own: WebSocket and legacy SSE.

One client session, and so one set of sockets and cookies, a channel: closing the channel closes exactly its sockets.
Redirects stay within the origin, because configured headers must not follow them elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import weakref
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import aiohttp
from yarl import URL

from mcp_connections import __version__
from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.channel import ChannelError, ProtocolViolation, TimedOut, Unauthorized, Unreachable
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.tls import client_context
from mcp_connections.proxy.wire.forwarded_headers import HeaderForwarding

CLOSE_SECONDS: Final = 2.0
MAX_REDIRECTS: Final = 3

_IDLE_SECONDS: Final = 4.0
"""Idle connections are closed before common servers close theirs (uvicorn and Node: 5 s): a message sent meanwhile
would be lost."""
_MAX_CONNECTIONS: Final = 256
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def shown_url(url: str) -> str:
    """The URL as it may be shown: without user, password, query and fragment, any of which may be a credential."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a malformed URL"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


def secrets_of(server: HttpServer) -> list[str]:
    """The parts of a connection that a backend's error text must not carry into a status."""
    configured = [*server.headers.values()]
    if server.client_credentials is not None:
        configured.append(server.client_credentials.client_secret)
    try:
        parts = urlsplit(server.url)
    except ValueError:
        return configured
    arguments = [value for _, value in parse_qsl(parts.query)]
    return [*configured, unquote(parts.password or ""), parts.query, *arguments]


def forwarding_to(server: HttpServer, connection: str) -> HeaderForwarding | None:
    """Which headers of clients' requests go to a backend; None: none."""
    if not server.forward_headers:
        return None
    return HeaderForwarding(server.forward_headers, configured=server.headers, connection=connection)


def same_origin(one: URL, other: URL) -> bool:
    """Whether the URLs have the same scheme, host and port (RFC 6454). Raises ValueError for a port that is none."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


class BackendClient:
    """One aiohttp session with one backend."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base: URL,
        headers: dict[str, str],
        tls: ssl.SSLContext | None,
        sockets: weakref.WeakSet[socket.socket],
    ) -> None:
        self.session = session
        self.base = base
        """The connection's URL without user and password; those are sent as a header."""
        self.headers = headers
        """What every request of this backend has."""
        self.tls = tls
        self._sockets = sockets

    async def close(self) -> None:
        """Close every socket of the session. Never raises."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.session.close()
        # A peer that does not read would keep a socket open until everything written to it is acknowledged.
        for left in [s for s in self._sockets if s.fileno() != -1]:
            with suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(0)


async def connect_client(server: HttpServer, where: str, connect_timeout: float) -> BackendClient:
    """Make the client session for a backend; nothing is sent yet. Raises ChannelError on unusable settings."""
    base = _base_url(server, where)
    headers = _headers(server, where)
    try:
        # Reading the system's root certificates takes tens of milliseconds.
        tls = await asyncio.to_thread(client_context, server)
    except ValueError as error:
        raise Unreachable(f"{where}: {error}; check transport.caBundleRef", executed=False) from None
    sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make_socket(info: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(info[0], info[1], info[2])
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        sockets.add(made)
        return made

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=tls if tls is not None else True,
            limit=_MAX_CONNECTIONS,
            keepalive_timeout=_IDLE_SECONDS,
            socket_factory=make_socket,
        ),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
        middlewares=(_same_origin_only,),
    )
    return BackendClient(session, base, headers, tls, sockets)


def _base_url(server: HttpServer, where: str) -> URL:
    with suppress(ValueError):
        url = URL(server.url)
        if url.host and url.scheme in ("http", "https", "ws", "wss"):
            return url.with_user(None).with_fragment(None)
    raise Unreachable(
        f"{where}: the URL is not usable; it needs a scheme (http, https, ws or wss) and a host", executed=False
    )


def _headers(server: HttpServer, where: str) -> dict[str, str]:
    for name, value in server.headers.items():
        if any(character in "\r\n\0" for character in name + value):
            raise Unreachable(
                f"{where}: header {name!r} holds a line break or NUL; check transport.headers and the Secret behind it",
                executed=False,
            )
    headers = {
        "User-Agent": f"mcp-connections/{__version__}",
        # Compressing an event stream makes intermediaries hold events back; what is compressed anyway is decoded.
        "Accept-Encoding": "identity",
    }
    parts = urlsplit(server.url)
    if parts.username is not None:
        headers["Authorization"] = aiohttp.encode_basic_auth(unquote(parts.username), unquote(parts.password or ""))
    ours = {name.lower(): name for name in headers}
    for name, value in server.headers.items():
        headers.pop(ours.get(name.lower(), ""), None)
        headers[name] = value
    return headers


class RedirectRefused(Exception):
    """A redirect leads to another origin, in circles, or would change the method."""


async def _same_origin_only(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    response = await handler(request)
    try:
        redirect_target(response.status, response.headers.get("Location", ""), request.url, request.method)
    except RedirectRefused:
        response.close()
        raise
    return response


def redirect_target(status: int, location: str, url: URL, method: str) -> URL | None:
    """Where a redirect leads; None where the answer is none. Raises RedirectRefused.

    It has to stay at the origin, as credentials go with it, and has to keep the method.
    """
    if status not in (301, 302, 303, 307, 308) or not location:
        return None
    with suppress(ValueError):
        target = url.join(URL(location))
        if same_origin(target, url) and (status in (307, 308) or method == "GET"):
            return target
    raise RedirectRefused(f"redirects to {shown_url(location)} (HTTP {status})")


def fault_of(error: BaseException, where: str, *, connecting: bool) -> ChannelError:
    """The fault of a request or connection that failed below its protocol.

    ``connecting``: nothing of MCP had been sent yet, so nothing was executed.
    """
    never_connected = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    executed = not connecting and not never_connected
    kind: type[Unreachable | TimedOut | ProtocolViolation] = Unreachable
    if isinstance(error, RedirectRefused):
        text, executed = f"{error}; put the final URL into the connection", False
    elif isinstance(error, aiohttp.TooManyRedirects):
        text, executed = "redirects in circles; put the final URL into the connection", False
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        text = f"its TLS certificate is not trusted: {reason}; check the host name in the URL and the CA bundle"
    elif isinstance(error, aiohttp.ClientSSLError):
        text = f"TLS failed ({_reason(error)}); check whether the port speaks TLS"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        text = "the host name cannot be resolved; check the URL"
    elif isinstance(error, aiohttp.ClientConnectorError):
        text = f"cannot connect: {_reason(error)}; check that it is up and listens at this address"
    elif isinstance(error, TimeoutError):
        kind, text = TimedOut, "no answer in time; check that it is up, or allow it more time"
    elif isinstance(error, aiohttp.ClientResponseError):
        kind, text = ProtocolViolation, f"the answer is not readable HTTP ({_reason(error)})"
    else:
        text = f"the connection broke ({_reason(error)})"
    return kind(f"{where}: {text}", executed=executed)


def _reason(error: BaseException) -> str:
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLError):
        return cause.reason or str(cause)
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)  # asyncio's own text repeats the address instead
    return getattr(cause, "message", None) or str(cause) or type(cause).__name__


def refusal(status: int, where: str, excerpt: str = "") -> ChannelError:
    """The fault that an HTTP status other than success stands for."""
    said = f": {excerpt}" if excerpt else ""
    if status in (401, 403):
        return Unauthorized(
            f"{where}: refused the credential (HTTP {status}{said}); check the connection's auth and headers",
            executed=False,
        )
    if status in (404, 405, 410):
        return Unreachable(f"{where}: answered HTTP {status}{said}; check the path of the URL", executed=False)
    if status == 421:
        return Unreachable(
            f"{where}: answered HTTP 421{said}; it does not accept the host name in the URL: allow it at the server or"
            " use another name",
            executed=False,
        )
    if status == 429 or status >= 500:
        return Unreachable(f"{where}: answered HTTP {status}", executed=status != 429, quoted=said)
    return ProtocolViolation(f"{where}: answered HTTP {status}{said}; check the URL and the transport", executed=False)


async def excerpt_of(response: aiohttp.ClientResponse, redactor: Redactor) -> str:
    """The beginning of an error body, for an error text. Never raises."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            return redactor.excerpt(await response.content.read(2048))
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""
