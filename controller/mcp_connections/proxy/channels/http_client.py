"""A lean HTTP/1.1 client for one origin: keep-alive pool, whole bodies or streamed events, nothing else.

It exists because this hop is on every call: the general clients cost two to ten times the CPU of the rest of the
relay. Parsing is httptools' (llhttp), TLS and resolution are the event loop's. It does not follow redirects, keep
cookies, use proxies from the environment or retry: a relay must not send a request twice on its own account.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import zlib
from collections import deque
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from mcp_connections.proxy.channels.os_faults import cause_of

IDLE_SECONDS: Final = 4.0
"""Idle connections are closed before common servers close theirs (uvicorn and Node: 5 s): that would lose a request."""
MAX_CONNECTIONS: Final = 2048
STREAM_BUFFER: Final = 256 * 1024
MAX_HEAD_BYTES: Final = 256 * 1024
"""Of a response; also what may come between two pieces of its body, or behind it."""


NOT_HTTP: Final = "check that the URL leads to an HTTP server, and whether it begins with http or https"
BROKEN_OFF: Final = "look into the backend's log, and at any proxy in front of it"
TOO_MUCH: Final = "ask the backend for less"
ENCODED: Final = "have the backend answer without compression, or with gzip"


class HttpFault(Exception):
    """The exchange failed below HTTP. ``executed`` is False where no byte of the request was sent. ``advice`` is what
    to do about it, to be said after the text; empty where there is nothing to do."""

    def __init__(self, message: str, *, executed: bool, advice: str = "") -> None:
        super().__init__(message)
        self.executed = executed
        self.advice = advice

    @property
    def advised(self) -> str:
        """The text with the advice."""
        return f"{self}; {self.advice}" if self.advice else str(self)


class BodyTooLarge(HttpFault):
    """The response body is over the limit."""


class HttpResponse:
    """Status, headers (names lower-cased, first value wins; of Set-Cookie all, one a line) and either the whole body or
    a stream of it."""

    __slots__ = ("_connection", "_over", "body", "headers", "status", "streamed")

    def __init__(self, connection: _Connection, status: int, headers: dict[bytes, bytes], *, streamed: bool) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers
        self.streamed = streamed
        self.body = b""
        self._over = not streamed
        """Nothing more is to be had: the connection may serve another exchange by now."""

    def header(self, name: bytes) -> str:
        """A header's value as text, empty where absent."""
        return self.headers.get(name, b"").decode("latin-1")

    async def read(self) -> bytes:
        """The next bytes of a streamed body, empty at its end. Raises HttpFault."""
        if self._over:
            return b""
        data = await self._connection.read_stream()
        if not data:
            self.release()
        return data

    def release(self) -> None:
        """Be done with a streamed body: the connection is reused if the stream ends soon, closed otherwise."""
        if not self._over:
            self._over = True
            self._connection.release_stream()


class _Connection(asyncio.Protocol):
    """One TCP or TLS connection, used by one exchange at a time."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[HttpResponse] | None = None
        self._more: asyncio.Future[None] | None = None
        self._response: HttpResponse | None = None
        self._headers: dict[bytes, bytes] = {}
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._without_effect = 0
        """Bytes since the head or a piece of the body was complete."""
        self._complete = True
        self._discard = False
        self._head_only = False
        self._reusable = True
        """As far as the last answer said."""
        self._decoder: _Inflate | None = None
        self._fault: HttpFault | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self.idle_since = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            self.close()  # bytes nobody asked for: the peer is out of step
            return
        self._without_effect += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(HttpFault("the answer switches to another protocol", executed=True, advice=NOT_HTTP))
        except httptools.HttpParserError as error:
            # What a callback raises arrives as the context of a HttpParserCallbackError.
            cause = error.__context__
            self._fail(
                cause
                if isinstance(cause, HttpFault)
                else HttpFault(f"the answer is not HTTP/1.1 ({error})", executed=True, advice=NOT_HTTP)
            )
        else:
            if self._without_effect > MAX_HEAD_BYTES and not self._complete:
                text = f"the head of the answer is larger than {MAX_HEAD_BYTES} bytes"
                self._fail(HttpFault(text, executed=True, advice=NOT_HTTP))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.forget(self)
        if self._complete:
            return
        if self._response is not None and self._ends_with_connection():
            self.on_message_complete()
            return
        text = f"the connection was closed before the answer was complete{_because(exc)}"
        self._fail(HttpFault(text, executed=True, advice=BROKEN_OFF))

    def _ends_with_connection(self) -> bool:
        # RFC 9112 section 6.3, item 8: neither length nor chunks means the body lasts as long as the connection.
        chunked = b"chunked" in self._headers.get(b"transfer-encoding", b"").lower()
        return not chunked and b"content-length" not in self._headers

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._complete:
            # In the idle pool by now: another exchange must never meet what is left of this answer.
            raise HttpFault("the answer is followed by bytes nobody asked for", executed=True, advice=BROKEN_OFF)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None:
            return  # a trailer, which is no header (RFC 9110, section 6.5.1)
        name = name.lower()
        if name == b"set-cookie" and name in self._headers:
            value = self._headers[name] + b"\n" + value  # the one header that is not a list (RFC 9110, section 5.3)
            del self._headers[name]
        self._headers.setdefault(name, value)

    def on_headers_complete(self) -> None:
        self._without_effect = 0
        status = self._parser.get_status_code()
        if status < 200:
            return
        headers = self._headers
        streamed = self._head_only or headers.get(b"content-type", b"")[:17].lower() == b"text/event-stream"
        response = self._response = HttpResponse(self, status, headers, streamed=streamed)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"gzip", b"x-gzip", b"deflate"):
            self._decoder = _Inflate(self._client.body_limit)
        elif encoding not in (b"identity", b""):
            raise HttpFault(
                f"the answer is encoded as {encoding.decode('latin-1')!r}, which was not offered",
                executed=True,
                advice=ENCODED,
            )
        if streamed and self._head is not None and not self._head.done():
            self._head.set_result(response)

    def on_body(self, data: bytes) -> None:
        self._without_effect = 0
        if self._discard:
            return
        if self._decoder is not None:
            data = self._decoder.decode(data)
        self._size += len(data)
        self._chunks.append(data)
        response = self._response
        if response is not None and response.streamed:
            self._wake()
            if self._size > STREAM_BUFFER and self._transport is not None:
                self._transport.pause_reading()
        elif self._size > self._client.body_limit:
            text = f"the answer is larger than {self._client.body_limit} bytes"
            raise BodyTooLarge(text, executed=True, advice=TOO_MUCH)

    def on_message_complete(self) -> None:
        response = self._response
        if response is None:  # the end of a 1xx interim response
            self._headers = {}
            return
        self._complete = True
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        self._reusable = self._parser.should_keep_alive()
        if response.streamed and not self._discard:
            self._wake()  # the connection is the reader's until it has taken everything
            return
        self._hand_back()
        if self._head is not None and not self._head.done():
            response.body = b"".join(self._chunks) if len(self._chunks) != 1 else self._chunks[0]
            self._chunks.clear()
            self._head.set_result(response)

    def _hand_back(self) -> None:
        """The exchange is over and nothing of it is left to read."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self._reusable:
            self.close()
        else:
            # A keep-alive connection must not be left paused: nothing would notice the peer closing it.
            transport.resume_reading()
            self._client.give_back(self)

    # one exchange

    async def exchange(self, data: bytes, *, head_only: bool) -> HttpResponse:
        """Send a whole request and return its response, complete or (event streams, ``head_only``) begun."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise HttpFault("the connection was closed while idle", executed=False, advice=BROKEN_OFF)
        self._response = None
        self._headers = {}
        self._chunks = deque()
        self._size = 0
        self._without_effect = 0
        self._complete = False
        self._discard = False
        self._head_only = head_only
        self._decoder = None
        self._fault = None
        head: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        self._head = head
        transport.write(data)
        try:
            return await head
        except asyncio.CancelledError:
            if head.cancelled():
                self.close()
            elif head.exception() is None:  # answered in the same moment: the connection may serve another by now
                head.result().release()
            raise

    async def read_stream(self) -> bytes:
        while True:
            if self._chunks:
                data = b"".join(self._chunks)
                self._chunks.clear()
                self._size = 0
                if self._transport is not None and not self._complete:
                    self._transport.resume_reading()
                return data
            if self._fault is not None:
                raise self._fault
            if self._complete:
                return b""
            self._more = asyncio.get_running_loop().create_future()
            try:
                await self._more
            except asyncio.CancelledError:
                self.close()
                raise
            finally:
                self._more = None

    def release_stream(self) -> None:
        if self._complete:
            self._hand_back()
            return
        self._discard = True
        self._chunks.clear()
        if self._transport is not None:
            self._transport.resume_reading()
        self._reaper = asyncio.get_running_loop().call_later(1.0, self.close)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _fail(self, fault: HttpFault) -> None:
        self._complete = True
        self._fault = fault
        if self._head is not None and not self._head.done():
            self._head.set_exception(fault)
        self._wake()
        self.close()

    def close(self) -> None:
        """Drop the connection now; an exchange that is under way fails."""
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        self._client.forget(self)
        if self._transport is not None:
            self._transport.abort()
        if not self._complete:
            self._complete = True
            self._fault = self._fault or HttpFault("the connection was closed", executed=True)
            if self._head is not None and not self._head.done():
                self._head.set_exception(self._fault)
            self._wake()

    @property
    def usable(self) -> bool:
        """Whether an idle connection is open, as far as can be known before a request is written to it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        # The event loop may not have come to what the peer did last. Nothing is due on an idle connection, so anything
        # to read is its end, or makes it unfit.
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)


class HttpClient:
    """Connections to one origin. Not thread-safe; belongs to one event loop."""

    def __init__(
        self, url: str, *, tls: ssl.SSLContext | None, connect_timeout: float, body_limit: int = 64 * 1024 * 1024
    ) -> None:
        parts = urlsplit(url)
        if parts.hostname is None:
            raise ValueError(f"{url!r} has no host")
        self._host = parts.hostname
        self._tls = tls if parts.scheme in ("https", "wss") else None
        self._port = parts.port or (443 if self._tls is not None else 80)
        self._connect_timeout = connect_timeout
        self.body_limit = body_limit
        self._idle: deque[_Connection] = deque()
        self._open: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(self, data: bytes, *, head_only: bool = False) -> HttpResponse:
        """Send the request, already serialised, on an idle or a new connection.

        ``head_only``: return as soon as status and headers are there; any body is streamed, and has to be released.
        Raises HttpFault. The time to connect is bounded here, the time to answer is the caller's to bound;
        cancelling closes the connection used.
        """
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_SECONDS:
                return await connection.exchange(data, head_only=head_only)
            connection.close()
        connection = await self._connect()
        return await connection.exchange(data, head_only=head_only)

    async def _connect(self) -> _Connection:
        if self._closed:
            raise HttpFault("the connection is retired", executed=False)
        if len(self._open) >= MAX_CONNECTIONS:
            text = f"{MAX_CONNECTIONS} requests are already in flight to this backend"
            raise HttpFault(text, executed=False, advice="try again later, or set policy.maxConcurrency")
        loop = asyncio.get_running_loop()
        where = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls is not None else None,
                )
        except TimeoutError:
            raise HttpFault(
                f"no connection to {where} within {self._connect_timeout:g} s",
                executed=False,
                advice="check that it is up and nothing on the way drops packets, or raise policy.timeouts.connect",
            ) from None
        except ssl.SSLCertVerificationError as error:
            advice = "check the host name in the URL and caBundleRef"
            raise HttpFault(f"{where}: {cause_of(error)}", executed=False, advice=advice) from error
        except ssl.SSLError as error:
            advice = "check whether the port speaks TLS"
            raise HttpFault(f"{where}: {cause_of(error)}", executed=False, advice=advice) from error
        except OSError as error:
            found = not isinstance(error, socket.gaierror)
            advice = "check that it is up and listens at this address" if found else "check the host name in the URL"
            raise HttpFault(f"cannot connect to {where}: {cause_of(error)}", executed=False, advice=advice) from error
        self._open.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """A complete, keep-alive exchange ended."""
        if self._closed:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_SECONDS, self._sweep)

    def forget(self, connection: _Connection) -> None:
        """A connection ended."""
        self._open.discard(connection)

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        oldest_allowed = loop.time() - IDLE_SECONDS
        while self._idle and (self._idle[0].idle_since <= oldest_allowed or not self._idle[0].usable):
            self._idle.popleft().close()
        if self._idle:
            self._sweeper = loop.call_later(IDLE_SECONDS, self._sweep)

    def close(self) -> None:
        """Close every connection, busy ones too."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in tuple(self._open):
            connection.close()


class _Inflate:
    """Decodes gzip or deflate, zlib-wrapped or raw, and refuses to inflate beyond a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._start = b""
        self._zlib: zlib._Decompress | None = None

    def decode(self, data: bytes) -> bytes:
        if self._zlib is None:
            data = self._start + data
            if len(data) < 2:  # what it is shows in the first two bytes
                self._start = data
                return b""
            wrapped = data[:1] == b"\x1f" or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
            self._zlib = zlib.decompressobj(47 if wrapped else -15)
        try:
            out = self._zlib.decompress(data, self._limit - self._size + 1)
        except zlib.error as error:
            raise HttpFault(f"the compressed answer is damaged ({error})", executed=True, advice=ENCODED) from error
        self._size += len(out)
        if self._size > self._limit:
            raise BodyTooLarge(f"the answer inflates to more than {self._limit} bytes", executed=True, advice=TOO_MUCH)
        return out


def _because(error: Exception | None) -> str:
    cause = cause_of(error) if isinstance(error, OSError) else str(error or "")
    return f" ({cause})" if cause else ""
