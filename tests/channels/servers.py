"""Real servers for the channels: legacy SSE and WebSocket, on loopback ports of their own."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve(stack: AsyncExitStack, routes: list[web.RouteDef], tls: ssl.SSLContext | None = None) -> str:
    """Serve routes until the stack is closed; returns the authority, ``127.0.0.1:PORT``."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0][:2]
    return f"{host}:{port}"


@dataclass
class SseBackend:
    """A legacy SSE server that answers each request with its params."""

    endpoint: str = "/messages?session_id=s1"
    prefix: str = ""
    gzip: bool = False
    get_status: int = 200
    content_type: str = "text/event-stream"
    post_status: int = 202
    answer_first: bool = False
    """Answer on the stream before the POST is accepted."""
    cookies: tuple[str, ...] = ()
    """What each answer sets, the number of the request appended."""
    unfinished: bool = False
    """The body of what accepts a POST never ends."""
    posts: list[dict[str, Any]] = field(default_factory=list)
    headers: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    streams: list[asyncio.Queue[bytes | None]] = field(default_factory=list)
    accept: asyncio.Event = field(default_factory=asyncio.Event)
    """POSTs are accepted while set."""
    connections: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.accept.set()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(f"{self.prefix}/sse", self.get),
            web.get("/moved", self.moved("/sse")),
            web.get("/away", self.moved("http://127.0.0.2:1/sse")),
            web.get("/loop", self.moved("/loop")),
            web.post(f"{self.prefix}/messages", self.post),
            web.post("/moved-messages", self.moved("/messages")),
            web.post("/away-messages", self.moved("http://127.0.0.2:1/messages")),
            web.post("/see-other", self.moved("/messages", 303)),
        ]

    def moved(self, location: str, status: int = 307) -> Handler:
        async def redirect(request: web.Request) -> web.Response:
            query = f"?{request.rel_url.raw_query_string}" if request.query_string else ""
            return web.Response(status=status, headers={"Location": location + query})

        return redirect

    async def get(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(("GET", dict(request.headers)))
        if self.get_status != 200:
            return web.Response(status=self.get_status, text="no: token s3cret-token is bad")
        response = web.StreamResponse(headers={"Content-Type": self.content_type})
        if self.gzip:
            response.headers["Content-Encoding"] = "gzip"
        self.set_cookies(response)
        await response.prepare(request)
        compressor = zlib.compressobj(wbits=31)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.streams.append(queue)
        if self.endpoint:
            queue.put_nowait(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        while (chunk := await queue.get()) is not None:
            if self.gzip:
                chunk = compressor.compress(chunk) + compressor.flush(zlib.Z_SYNC_FLUSH)
            await response.write(chunk)
        return response

    async def post(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(("POST", dict(request.headers)))
        self.connections.add(request.transport)
        message = await request.json()
        self.posts.append({"query": request.rel_url.raw_query_string, "path": request.path, **message})
        if self.post_status >= 300:
            return web.Response(status=self.post_status, text="no: token s3cret-token is bad")
        if self.answer_first:
            self.answer(message)
        await self.accept.wait()
        if not self.answer_first:
            self.answer(message)
        if self.unfinished:
            response = web.StreamResponse(status=self.post_status)
            await response.prepare(request)
            await response.write(b"Accep")
            await asyncio.Event().wait()
        accepted = web.Response(status=self.post_status, text="Accepted" if self.post_status != 204 else None)
        self.set_cookies(accepted)
        return accepted

    def set_cookies(self, response: web.StreamResponse) -> None:
        for name in self.cookies:
            response.set_cookie(name, str(len(self.headers)))

    def answer(self, message: dict[str, Any]) -> None:
        if "id" in message and "method" in message and message["method"] != "silent":
            self.say({"jsonrpc": "2.0", "id": message["id"], "result": message.get("params")})

    def say(self, message: dict[str, Any]) -> None:
        self.raw(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    def raw(self, chunk: bytes | None) -> None:
        """Put bytes on the stream; None ends it."""
        self.streams[-1].put_nowait(chunk)


@dataclass
class WebSocketBackend:
    """A WebSocket server that answers each request with its params, or does what its method says."""

    protocols: tuple[str, ...] = ("mcp",)
    autoping: bool = True
    headers: list[dict[str, str]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    closed: list[int | None] = field(default_factory=list)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/ws", self.ws),
            web.get("/plain", self.plain),
            web.get("/refused", self.refused),
            web.get("/away", self.away),
            web.get("/moved", self.moved),
        ]

    async def plain(self, _: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def refused(self, request: web.Request) -> web.Response:
        return web.Response(status=int(request.query["status"]))

    async def away(self, _: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.2:1/ws"})

    async def moved(self, _: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "/ws"})

    async def ws(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        socket = web.WebSocketResponse(
            protocols=self.protocols, autoping=self.autoping, max_msg_size=64 * 1024 * 1024, timeout=1.0
        )
        await socket.prepare(request)
        self.sockets.append(socket)
        async for frame in socket:
            if frame.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                message = json.loads(frame.data)
                self.received.append({**message, "_type": frame.type.name})
                await self.react(socket, message)
        self.closed.append(socket.close_code)
        return socket

    async def react(self, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        params = message.get("params") or {}
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": params})
        match message.get("method"):
            case "close":
                await socket.close(code=params["code"], message=params.get("reason", "").encode())
            case "binary":
                await socket.send_bytes(answer.encode())
            case "big":
                text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "z" * params["size"]}})
                await socket.send_str(text)
            case "cut":
                assert socket._req is not None  # noqa: SLF001  (no public way to break a connection)
                assert socket._req.transport is not None  # noqa: SLF001
                socket._req.transport.abort()  # noqa: SLF001
            case "raw":
                await socket.send_frame(params["text"].encode("latin-1"), WSMsgType.TEXT)
            case "silent" | None:
                pass
            case _ if "id" in message:
                await socket.send_str(answer)


@dataclass
class Certificate:
    """A certificate authority and a server certificate for 127.0.0.1 by it."""

    authority: str
    server: ssl.SSLContext


def make_certificate(folder: Path) -> Certificate:
    """Make an authority and a server's context that presents a certificate by it."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test authority")])
    now = datetime.now(UTC)

    def builder(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority = (
        builder(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        builder(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "backend")]), server_key.public_key())
        .add_extension(address, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain, key = folder / "server.pem", folder / "server.key"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    return Certificate(authority.public_bytes(serialization.Encoding.PEM).decode(), context)
