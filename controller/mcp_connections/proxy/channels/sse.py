"""Legacy HTTP with SSE (MCP 2024-11-05, basic/transports, "HTTP with SSE").

One GET holds the stream of everything the backend says. Its first event names the endpoint to POST messages to.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Unpack

import aiohttp
from yarl import URL

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.backend_client import (
    CLOSE_SECONDS,
    MAX_REDIRECTS,
    RedirectRefused,
    connect_client,
    excerpt_of,
    fault_of,
    forwarding_to,
    refusal,
    same_origin,
    shown_url,
)
from mcp_connections.proxy.channels.channel import (
    ChannelError,
    MessageHandler,
    ProtocolViolation,
    TimedOut,
    Unreachable,
)
from mcp_connections.proxy.channels.duplex import WRITE_SECONDS
from mcp_connections.proxy.channels.message_endpoint import MessageEndpoint
from mcp_connections.proxy.channels.remote_duplex import RemoteDuplexChannel, Settings
from mcp_connections.proxy.wire.event_stream import EventStreamParser, EventTooLarge, ServerSentEvent
from mcp_connections.proxy.wire.jsonrpc import Envelope

log = logging.getLogger(__name__)


class SseChannel(RemoteDuplexChannel):
    """One MCP session over one event stream."""

    post_seconds = WRITE_SECONDS
    """How long a POST may take once nothing waits for its answer on the stream."""

    def __init__(self, server: HttpServer, **settings: Unpack[Settings]) -> None:
        super().__init__(server, **settings)
        self.forwarding = forwarding_to(server, settings["connection"])
        self._stream: aiohttp.ClientResponse | None = None
        self._endpoint: asyncio.Future[MessageEndpoint] | None = None
        self._posts: set[asyncio.Task[None]] = set()

    def negotiated(self, protocol_version: str) -> None:
        # Unknown to 2024-11-05, but servers of a later version may be reached over this transport and want it.
        assert self._endpoint is not None
        self._endpoint.result().add_header("MCP-Protocol-Version", protocol_version)

    # the stream

    async def _connect(self) -> None:
        client = self._client = await connect_client(self._server, self._where, self._connect_timeout)

        async def get(credential: dict[str, str]) -> aiohttp.ClientResponse:
            response = self._stream = await client.session.get(
                client.base,
                headers={"Accept": "text/event-stream", "Cache-Control": "no-store", **credential},
                max_redirects=MAX_REDIRECTS,
            )
            if response.status == 401 and credential:
                response.close()  # another one may follow
            return response

        try:
            response = await self._authorized(get, lambda response: response.status == 401)
        except (aiohttp.ClientError, RedirectRefused, TimeoutError, OSError) as error:
            raise fault_of(error, self._where, connecting=True) from None
        if response.status != 200:
            raise refusal(response.status, self._where, await excerpt_of(response, self.redactor))
        if response.content_type.lower() != "text/event-stream":
            raise ProtocolViolation(
                f"{self._where}: answers with {response.content_type}, not with an event stream; check the URL, and"
                " whether the backend speaks streamable HTTP (transport.http)",
                executed=False,
            )
        self._endpoint = asyncio.get_running_loop().create_future()
        self._reader = self._in_background(self._read(response, self._endpoint))
        await asyncio.wait({self._endpoint})
        self._endpoint.result()

    async def _read(self, response: aiohttp.ClientResponse, endpoint: asyncio.Future[MessageEndpoint]) -> None:
        parser = EventStreamParser(self._message_limit)
        try:
            while chunk := await response.content.readany():
                for event in parser.feed(chunk):
                    self._take(event, response.url, endpoint)
            fault: ChannelError = Unreachable(f"{self._where}: the backend ended the event stream")
        except EventTooLarge as error:
            fault = ProtocolViolation(f"{self._where}: {error}, the limit; ask the tool for less")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            fault = fault_of(error, self._where, connecting=False)
        except ChannelError as error:
            fault = error
        if endpoint.done():
            self.lose(fault)
        else:
            endpoint.set_exception(fault)
            endpoint.exception()  # nobody may be waiting any more

    def _take(self, event: ServerSentEvent, stream_url: URL, endpoint: asyncio.Future[MessageEndpoint]) -> None:
        if event.event == "endpoint":
            if not endpoint.done():
                endpoint.set_result(self._message_endpoint(self._resolve_endpoint(event.data, stream_url)))
        elif event.event == "message" and event.data:
            self.receive(event.data)

    def _message_endpoint(self, url: URL) -> MessageEndpoint:
        assert self._client is not None
        return MessageEndpoint(
            url,
            where=self._where,
            headers=self._client.headers,
            cookies=self._client.session.cookie_jar,
            tls=self._client.tls,
            connect_timeout=self._connect_timeout,
            redactor=self.redactor,
        )

    def _resolve_endpoint(self, data: bytes, stream_url: URL) -> URL:
        reference = data.decode("utf-8", "replace").strip()
        # A session id in the query is the server's own spelling; only what no URL may hold is encoded.
        verbatim = reference.isascii() and reference.isprintable() and not set(reference) & set(' <>"{}|\\^`')
        try:
            url = stream_url.join(URL(reference, encoded=verbatim)).with_fragment(None)
            foreign = None if same_origin(url, stream_url) else shown_url(str(url))
        except ValueError:
            raise ProtocolViolation(
                f"{self._where}: names an endpoint that is no URL: {self.redactor.excerpt(data)!r}", executed=False
            ) from None
        if foreign is not None:
            raise ProtocolViolation(
                f"{self._where}: wants messages sent to another origin, {foreign}; refused, as they carry the"
                " connection's credentials",
                executed=False,
            )
        return url.with_user(None)

    # messages out

    async def exchange(
        self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes = b""
    ) -> Envelope:
        with self._answer_to(request_id) as answer:
            # The answer may be on the stream before the POST is accepted: servers differ in which they do first. As
            # long as it is awaited, the POST may take the time that the exchange has.
            post = asyncio.create_task(self._transmit(body, headers), name=f"{self._where}: post")
            self._posts.add(post)
            post.add_done_callback(partial(self._posted, answer))
            try:
                return await answer
            finally:
                if answer.cancelled():
                    post.cancel()
                elif not post.done():
                    asyncio.get_running_loop().call_later(self.post_seconds, post.cancel)

    def _posted(self, answer: asyncio.Future[Envelope], post: asyncio.Task[None]) -> None:
        self._posts.discard(post)
        error = None if post.cancelled() else post.exception()
        if error is None:
            return
        if answer.done():
            log.debug("%s: a POST failed after its request was answered: %s", self._where, error)
        else:
            answer.set_exception(error)

    async def send(self, body: bytes) -> None:
        try:
            async with asyncio.timeout(self.post_seconds):
                await super().send(body)
        except TimeoutError:
            raise TimedOut(f"{self._where}: did not accept a message within {self.post_seconds:g} s") from None

    async def _transmit(self, body: bytes, headers: bytes = b"") -> None:
        assert self._endpoint is not None
        endpoint = self._endpoint.result()
        try:
            outcome = await self._authorized(
                lambda credential: endpoint.post(body, headers, credential), lambda outcome: outcome.status == 401
            )
            endpoint.check(outcome)
        except Unreachable:
            self._refuse_if_over(executed=True)
            raise

    # the end

    async def _disconnect(self) -> None:
        tasks = {*self._posts, *([self._reader] if self._reader is not None else [])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        if self._stream is not None:
            self._stream.close()
        if self._endpoint is not None and self._endpoint.done() and self._endpoint.exception() is None:
            self._endpoint.result().close()
        if self._client is not None:
            await self._client.close()
