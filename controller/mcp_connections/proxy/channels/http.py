"""Streamable HTTP towards a backend (MCP 2025-11-25, basic/transports, "Streamable HTTP").

Every message is a POST. The answer is one JSON body or an event stream; a stream that ends early is resumed with
Last-Event-ID. Messages of the backend outside any request arrive on a GET stream, which is opened only on demand.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import Final
from urllib.parse import urljoin, urlsplit

from mcp_connections import __version__
from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import forwarding_to, secrets_of, shown_url
from mcp_connections.proxy.channels.bridge_faults import raise_fault, told_cause
from mcp_connections.proxy.channels.channel import (
    Channel,
    ChannelError,
    HandshakeRefused,
    MessageHandler,
    ProtocolViolation,
    SessionLost,
    Unauthorized,
    Unreachable,
)
from mcp_connections.proxy.channels.exits import Exits
from mcp_connections.proxy.channels.http_client import BodyTooLarge, HttpClient, HttpFault, HttpResponse
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.token_keeper import TokenKeeper
from mcp_connections.proxy.wire.event_stream import EventStreamParser, EventTooLarge, ServerSentEvent
from mcp_connections.proxy.wire.jsonrpc import (
    DecodeError,
    Envelope,
    as_utf8,
    decode_envelope,
    decode_items,
    int_id,
    is_response,
)
from mcp_connections.proxy.wire.trace_context import outgoing

log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
MAX_RESUMES: Final = 20
MAX_REDIRECTS: Final = 3
_LATER: Final = (408, 425, 429)
"""Client errors that say nothing but that the request came at a bad time."""
_SESSION: Final = b"mcp-session-id"


class HttpBackend:
    """What all channels of one mount share: the connection pool and the unchanging part of each request."""

    def __init__(
        self,
        server: HttpServer,
        *,
        connection: str,
        connect_timeout: float,
        tls: ssl.SSLContext | None,
        exits: Exits,
        message_limit: int = 64 * 1024 * 1024,
        keeper: TokenKeeper | None = None,
    ) -> None:
        self.connection = connection
        self.keeper = keeper
        """Where the credential comes from, if it is none of the fixed headers."""
        self.forwarding = forwarding_to(server, connection)
        self.message_limit = message_limit
        self.client = HttpClient(server.url, tls=tls, connect_timeout=connect_timeout, body_limit=message_limit)
        self.redactor = Redactor(secrets_of(server)) if keeper is None else keeper.redactor
        self.bridged = server.bridged
        self.exits = exits
        self._server = server
        self._locate(server.url)

    def _locate(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self.shown_url = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        authority = parts.netloc.rpartition("@")[2]
        headers = {
            "host": authority,
            "user-agent": f"mcp-connections/{__version__}",
            # Compressing costs both sides more than it saves inside a cluster; a compressed answer is decoded anyway.
            "accept-encoding": "identity",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        headers |= {name.lower(): value for name, value in self._server.headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._lines = lines.encode("utf-8")
        self.post_head = f"POST {self._target} HTTP/1.1\r\n".encode() + self._lines

    def without_body(self, method: str) -> bytes:
        """Request line and fixed headers of a GET or DELETE."""
        return f"{method} {self._target} HTTP/1.1\r\n".encode() + self._lines

    def redirect(self, response: HttpResponse) -> bool:
        """Follow a 307 or 308 on the same origin, for this and every later request. Body and headers are kept,
        which is only safe where they go to the same server."""
        location = response.header(b"location")
        target = urljoin(self.url, location)
        if response.status not in (307, 308) or not location or _origin(target) != _origin(self.url):
            return False
        log.info(
            "connection %s: %s answered %d; using %s from now on",
            self.connection,
            self.shown_url,
            response.status,
            shown_url(target),
        )
        self._locate(target)
        return True


class StreamableHttpChannel(Channel):
    """One MCP session over HTTP; many of them share one HttpBackend."""

    stream_per_request = True

    def __init__(self, backend: HttpBackend) -> None:
        self._backend = backend
        self.redactor = backend.redactor
        self.forwarding = backend.forwarding
        self._session = b""
        self._session_lines = b""
        self._version_line = b""
        self._listener: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """HTTP connects with its first request. What that takes is fetched here, so that a token endpoint in trouble
        is told from a backend in trouble."""
        if self._backend.keeper is not None:
            await self._backend.keeper.token()

    def negotiated(self, protocol_version: str) -> None:
        line = f"mcp-protocol-version: {protocol_version}\r\n" if protocol_version else ""
        self._version_line = line.encode()

    # requests

    async def exchange(
        self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes = b""
    ) -> Envelope:
        answer = await self._answer(request_id, body, on_message, headers)
        if self._backend.bridged:
            raise_fault(answer, self._backend.exits)
        return answer

    async def _answer(self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes) -> Envelope:
        response = await self._post(body, headers + outgoing())
        if response.streamed:
            return await self._answer_in_stream(response, request_id, on_message, headers)
        if not response.body:
            raise ProtocolViolation(
                f"{self._backend.shown_url} answered a request with HTTP {response.status} and no body"
            )
        try:
            message = decode_envelope(as_utf8(response.body))
        except DecodeError as error:
            return self._answer_among_several(response, request_id, on_message, error)
        if int_id(message) != request_id and not (response.status >= 400 and "error" in message):
            raise ProtocolViolation(f"{self._backend.shown_url} answered with the id of another request")
        if not is_response(message):
            raise ProtocolViolation(f"{self._backend.shown_url} answered with neither a result nor an error")
        return message

    def _answer_among_several(
        self, response: HttpResponse, request_id: int, on_message: MessageHandler, no_single: DecodeError
    ) -> Envelope:
        answer: Envelope | None = None
        try:
            for message in _several(as_utf8(response.body)):
                if is_response(message) and int_id(message) == request_id:
                    answer = message
                else:
                    on_message(message)
        except DecodeError:
            raise self._no_message(response, no_single) from None
        if answer is None:
            raise ProtocolViolation(f"{self._backend.shown_url} answered without a response to the request")
        return answer

    def _no_message(self, response: HttpResponse, error: DecodeError) -> ProtocolViolation:
        content_type = self.redactor.excerpt(response.headers.get(b"content-type", b"")) or "no content type"
        return ProtocolViolation(
            f"{self._backend.shown_url} answered HTTP {response.status} with {content_type} that is no JSON-RPC"
            f" message ({error}); is the URL the server's MCP endpoint?"
        )

    async def _answer_in_stream(
        self, response: HttpResponse, request_id: int, on_message: MessageHandler, headers: bytes
    ) -> Envelope:
        cursor = _Cursor()
        barren = 0
        for _ in range(MAX_RESUMES):
            received = cursor.events
            answer = await self._read_to_answer(response, cursor, request_id, on_message)
            if answer is not None:
                return answer
            if cursor.last_id is None:
                raise ProtocolViolation(f"{self._backend.shown_url} ended the stream before it answered")
            # SEP-1699: the server may end the stream at any time; the client polls after the interval it was given.
            barren = barren + 1 if cursor.events == received else 0
            await asyncio.sleep(cursor.wait(barren))
            response = await self._get(cursor.last_id, headers)
            if not response.streamed:
                raise ProtocolViolation(
                    f"{self._backend.shown_url} refused to resume the stream (HTTP {response.status})"
                )
        raise ProtocolViolation(f"{self._backend.shown_url} did not answer in {MAX_RESUMES} resumed streams")

    async def _read_to_answer(
        self, response: HttpResponse, cursor: _Cursor, request_id: int, on_message: MessageHandler
    ) -> Envelope | None:
        """The response to the request; None where the stream ends before it but can be resumed."""
        parser = EventStreamParser(self._backend.message_limit)
        try:
            while chunk := await response.read():
                for event in parser.feed(chunk):
                    cursor.note(event)
                    message = self._decode(event)
                    if message is None:
                        continue
                    if is_response(message) and int_id(message) == request_id:
                        return message
                    on_message(message)
        except EventTooLarge as error:
            raise ProtocolViolation(f"{self._backend.shown_url}: {error}") from None
        except HttpFault as fault:
            if cursor.last_id is None:
                raise Unreachable(f"{self._backend.shown_url}: {fault.advised}") from None
        finally:
            response.release()
        return None

    async def send(self, body: bytes) -> None:
        response = await self._post(body)
        if response.streamed:
            response.release()

    async def _post(self, body: bytes, headers: bytes = b"") -> HttpResponse:
        for _ in range(MAX_REDIRECTS):
            had_session = bool(self._session)
            head = b"%s%s%s%scontent-length: %d\r\n" % (
                self._backend.post_head,
                self._version_line,
                self._session_lines,
                headers,
                len(body),
            )
            response = await self._send(head, body)
            status = response.status
            if status < 300:
                if not had_session and (session := response.headers.get(_SESSION)):
                    self._session = session
                    self._session_lines = b"%s: %s\r\n" % (_SESSION, session)
                return response
            if 300 <= status < 400 and self._backend.redirect(response):
                continue
            self._refused(response, had_session)
            return response
        raise Unreachable(f"{self._backend.shown_url} redirects in a circle", executed=False)

    async def _get(self, last_event_id: str | None, headers: bytes = b"") -> HttpResponse:
        resume = f"last-event-id: {last_event_id}\r\n".encode() if last_event_id is not None else b""
        head = self._backend.without_body("GET") + self._version_line + self._session_lines + headers + resume
        return await self._send(head)

    async def _send(self, head: bytes, body: bytes = b"") -> HttpResponse:
        """``head`` without the empty line at its end."""
        keeper = self._backend.keeper
        if keeper is None:
            return await self._transmit(head + b"\r\n" + body)

        async def send(token: str) -> HttpResponse:
            response = await self._transmit(b"%sauthorization: Bearer %s\r\n\r\n%s" % (head, token.encode(), body))
            if response.status == 401 and response.streamed:
                response.release()
            return response

        return await keeper.spend(send, lambda response: response.status == 401)

    async def _transmit(self, data: bytes) -> HttpResponse:
        try:
            return await self._backend.client.request(data)
        except BodyTooLarge as fault:
            raise ProtocolViolation(f"{self._backend.shown_url}: {fault.advised}") from None
        except HttpFault as fault:
            raise Unreachable(f"{self._backend.shown_url}: {fault.advised}", executed=fault.executed) from None

    def _refused(self, response: HttpResponse, had_session: bool) -> None:
        """Raise what a status of 300 and above means; return where the body is a JSON-RPC answer all the same."""
        status = response.status
        url = self._backend.shown_url
        if response.streamed:
            response.release()
        if status == 404 and had_session:
            raise self._session_lost(response)
        if status in (401, 403):
            what = "credential" if status == 401 else "request"
            raise Unauthorized(
                f"{url} refused the {what} (HTTP {status}); check the connection's auth and headers", executed=False
            )
        if 300 <= status < 400:
            location = self.redactor.excerpt(shown_url(response.header(b"location")).encode()) or "nowhere"
            raise Unreachable(
                f"{url} redirects to {location} (HTTP {status}); put the final URL into the connection", executed=False
            )
        if response.body[:1] == b"{":
            try:
                message = decode_envelope(as_utf8(response.body))
            except DecodeError:
                message = {}
            if "error" in message and "jsonrpc" in message:
                return
        raise self._unusable(response)

    def _session_lost(self, response: HttpResponse) -> SessionLost:
        cause = told_cause(response.body, self._backend.exits) if self._backend.bridged else None
        if cause is not None:
            return SessionLost(str(cause), outage=cause.reason)
        return SessionLost(f"{self._backend.shown_url} no longer knows the session (HTTP 404)")

    def _unusable(self, response: HttpResponse) -> ChannelError:
        """What a status of 300 and above says that has no meaning of its own in MCP."""
        status = response.status
        url = self._backend.shown_url
        if status == 421:
            return Unreachable(
                f"{url} answered HTTP 421: it does not accept the host name in the URL; allow it at the server"
                " or use another name",
                executed=False,
            )
        if status in (404, 405):
            return ProtocolViolation(
                f"{url} answered HTTP {status}{self._excerpt(response)}; check that the URL is the server's MCP"
                " endpoint and that the transport is the one it speaks",
                executed=False,
            )
        if status == 400:
            return HandshakeRefused(f"{url} answered HTTP 400", executed=False, quoted=self._excerpt(response))
        if status < 500 and status not in _LATER:
            # The backend is there and does not like this request: no reason to think worse of it for the next one.
            return ProtocolViolation(f"{url} answered HTTP {status}", quoted=self._excerpt(response))
        # A proxy answers 502, 503 and 504 for a server it may or may not have reached; 429 comes before any work.
        return Unreachable(f"{url} answered HTTP {status}", executed=status != 429, quoted=self._excerpt(response))

    def _excerpt(self, response: HttpResponse) -> str:
        text = self.redactor.excerpt(response.body)
        return f": {text}" if text and text.isprintable() else ""

    # messages outside requests

    def listen(self) -> None:
        if self._listener is None and not self._closed:
            self._listener = asyncio.create_task(self._listen(), name=f"listen {self._backend.connection}")

    async def _listen(self) -> None:
        cursor = _Cursor()
        failures = 0
        while not self._closed:
            try:
                response = await self._get(cursor.last_id)
                if response.status == 404 and self._session:
                    self._lost(self._session_lost(response))
                    return
                if 400 <= response.status < 500 and response.status not in _LATER:
                    return  # a server may refuse GET; it then sends nothing on its own account
                if response.streamed:
                    if await self._receive(response, cursor):
                        failures = 0
                else:
                    failures += 1
            except ChannelError as error:
                log.debug("connection %s: event stream: %s", self._backend.connection, error)
            failures += 1
            await asyncio.sleep(cursor.wait(failures))

    async def _receive(self, response: HttpResponse, cursor: _Cursor) -> bool:
        parser = EventStreamParser(self._backend.message_limit)
        received = False
        try:
            while chunk := await response.read():
                received = True
                for event in parser.feed(chunk):
                    cursor.note(event)
                    message = self._decode(event)
                    if message is not None:
                        self.on_message(message)
        except (HttpFault, EventTooLarge) as error:
            log.debug("connection %s: event stream: %s", self._backend.connection, error)
        finally:
            response.release()
        return received

    def _decode(self, event: ServerSentEvent) -> Envelope | None:
        if not event.data or event.event != "message":
            return None
        try:
            return decode_envelope(as_utf8(event.data))
        except DecodeError as error:
            log.warning(
                "connection %s: skipped an event that is no JSON-RPC message (%s)", self._backend.connection, error
            )
            return None

    def _lost(self, error: ChannelError) -> None:
        if not self._closed:
            self.on_lost(error)

    # the end

    async def aclose(self) -> None:
        self._closed = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            await asyncio.wait({listener}, timeout=CLOSE_SECONDS)
        if not self._session:
            return
        head = self._backend.without_body("DELETE") + self._version_line + self._session_lines
        self._session = self._session_lines = b""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                response = await self._send(head)
                if response.streamed:
                    response.release()
        except (ChannelError, TimeoutError) as error:
            # Servers may refuse DELETE, and a session of a server that is gone is gone with it.
            log.debug("connection %s: DELETE of a session: %s", self._backend.connection, error)


class _Cursor:
    """Where an event stream stands: what to resume from, and when."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.events = 0
        self._retry = 1.0

    def note(self, event: ServerSentEvent) -> None:
        self.events += 1
        if event.id is not None:
            self.last_id = event.id or None
        if event.retry is not None:
            self._retry = min(event.retry / 1000, 30.0)

    def wait(self, failures: int) -> float:
        """Seconds until the next try: what the server asked for, doubled with each failure, 30 at most."""
        return float(min(self._retry * 2 ** max(0, min(failures - 1, 10)), 30.0) * random.uniform(1.0, 1.2))  # noqa: S311


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _several(body: bytes) -> list[Envelope]:
    """Messages that are answered together: as a JSON array, which 2025-03-26 allowed, or one a line, which servers do
    that stream without events. Raises DecodeError."""
    items = decode_items(body) if body.lstrip()[:1] == b"[" else [line for line in body.splitlines() if line.strip()]
    return [decode_envelope(item) for item in items]
