"""Who may use the admin port: an ASGI guard in front of everything on it.

With a token, every path but the probes and the metrics takes ``Authorization: Bearer TOKEN`` (RFC 6750). Without
one the port is open to this machine only, so the guard keeps other people's web pages out: a browser that was led here
by DNS rebinding names a foreign host in ``Host`` or ``Origin``.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_connections.proxy.access.host_guard import is_loopback
from mcp_connections.proxy.admin.answers import problem

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


class AdminGuard:
    """Lets a request through to ``app``, or answers 401 or 403 itself."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token.encode() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._check_token(headers) if self._token is not None else _check_local(headers)
        await (refusal or self._app)(scope, receive, send)

    def _check_token(self, headers: Headers) -> Response | None:
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            return problem(
                401,
                "Unauthorized",
                "This needs the admin token: send it as 'Authorization: Bearer TOKEN'.",
                headers={"WWW-Authenticate": 'Bearer realm="mcp-connections admin"'},
            )
        if not hmac.compare_digest(credential.strip().encode(), self._token or b""):
            return problem(
                401,
                "Unauthorized",
                "This is not the admin token of this proxy. Compare it with the file given as --admin-token-file.",
                headers={"WWW-Authenticate": 'Bearer realm="mcp-connections admin", error="invalid_token"'},
            )
        return None


def _check_local(headers: Headers) -> Response | None:
    named = [("Host", _hostname("//" + headers.get("host", "")))]
    if "origin" in headers:
        named.append(("Origin", _hostname(headers["origin"])))
    for header, host in named:
        if not is_loopback(host):
            return problem(
                403,
                "Forbidden",
                f"{header} names {host or 'nobody'!r}, and this admin port has no token, so it answers to localhost "
                "only. Start with --admin-token-file to use it under another name.",
            )
    return None


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
