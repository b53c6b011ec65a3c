"""A token endpoint that keeps what it was asked and does what a test tells it to. Nothing of it is shared with the code
under test."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from starlette.types import Receive, Scope, Send

from tests.backends.http_server import HttpServer
from tests.backends.scripted import HttpAnswer, Seen

CLIENT = "client:one"
SECRET = "s3cret of the+client"


@dataclass(frozen=True)
class Asked:
    """One request for a token."""

    path: str
    headers: dict[str, str]
    form: dict[str, list[str]]

    @property
    def basic(self) -> tuple[str, str]:
        """Id and secret in the Authorization header (RFC 6749, section 2.3.1)."""
        scheme, _, encoded = self.headers.get("authorization", "").partition(" ")
        assert scheme == "Basic", self.headers
        identity, _, secret = base64.b64decode(encoded).decode().partition(":")
        return unquote_plus(identity), unquote_plus(secret)


class TokenServer:
    """Gives out ``token-number-N`` to whoever knows the secret."""

    def __init__(self) -> None:
        self.server = HttpServer(self)
        self.secret = SECRET
        self.asked: list[Asked] = []
        self.valid: set[str] = set()
        """Tokens that backends take."""
        self.members: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        """Of the answer, beside the token."""
        self.instead: HttpAnswer | None = None
        """What it answers in place of a token."""
        self.open = asyncio.Event()
        """Requests are answered while it is set."""
        self.open.set()
        self.given = 0

    @property
    def url(self) -> str:
        return f"{self.server.origin}/oauth/token"

    def revoke(self) -> None:
        """No token given out so far is taken any more."""
        self.valid.clear()

    async def guard(self, seen: Seen) -> HttpAnswer | None:
        """An intercept for a backend that takes tokens of this server alone."""
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        return None if token in self.valid else HttpAnswer(401, f"not with {token}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        asked = Asked(scope["path"], headers, parse_qs(body.decode(), strict_parsing=True))
        self.asked.append(asked)
        await self.open.wait()
        answer = self.instead or self._answer(asked)
        lines = {"content-type": "application/json", "content-length": str(len(answer.body)), **answer.headers}
        fields = [(name.encode(), value.encode()) for name, value in lines.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "http.response.body", "body": answer.body})

    def _answer(self, asked: Asked) -> HttpAnswer:
        if "client_secret" in asked.form:
            presented = (asked.form["client_id"][0], asked.form["client_secret"][0])
        else:
            presented = asked.basic
        if presented != (CLIENT, self.secret):
            said = {"error": "invalid_client", "error_description": f"not with {presented[1]}"}
            return HttpAnswer(401, json.dumps(said).encode())
        self.given += 1
        token = f"token-number-{self.given}"
        self.valid.add(token)
        return HttpAnswer(200, json.dumps({"access_token": token, **self.members}).encode())


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[TokenServer]:
    """A token server on a free port."""
    server = TokenServer()
    await server.server.start()
    try:
        yield server
    finally:
        server.open.set()
        await server.server.stop()
