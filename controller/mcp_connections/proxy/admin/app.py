"""The admin port's application: mounts for an operator, MCP tools for an assistant, probes and metrics.

It is served on a port of its own (``admin.server``), never on the public one. Paths are versioned, so an operator and
a proxy one version apart work together.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_connections.proxy.admin.control import AdminControl
from mcp_connections.proxy.admin.guard import AdminGuard
from mcp_connections.proxy.admin.mcp import admin_mcp_server
from mcp_connections.proxy.admin.mounts import MountsEndpoint
from mcp_connections.proxy.telemetry.metrics import Metrics


def admin_app(control: AdminControl, metrics: Metrics, token: str | None) -> Starlette:
    """The ASGI application of the admin port.

    ``token`` guards everything but the probes and the metrics; None leaves it to this machine
    (``admin_server.admin_server`` refuses to listen anywhere else then). Its lifespan must be run.
    """
    mcp = admin_mcp_server(control).http_app(path="/admin/mcp", json_response=True, stateless_http=True)
    mounts = MountsEndpoint(control)

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        report = control.report()
        if report.ready:
            return PlainTextResponse("ok\n")
        waiting = [str(mount.connection) for mount in report.mounts if not mount.attempted]
        named = ", ".join(waiting[:20]) or "the first mounts"
        return PlainTextResponse(f"not ready: waiting for the first attempt of {named}\n", 503)

    async def metrics_page(request: Request) -> Response:
        text, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(text, media_type=content_type)

    return Starlette(
        routes=[
            Route("/admin/v1/mounts", mounts.get, methods=["GET"]),
            Route("/admin/v1/mounts", mounts.put, methods=["PUT"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics_page),
            Route("/admin/mcp", _OnePath(mcp, "/admin/mcp")),
            Route("/admin/mcp/", _OnePath(mcp, "/admin/mcp")),
        ],
        middleware=[Middleware(AdminGuard, token=token)],
        lifespan=mcp.lifespan,
    )


class _OnePath:
    """Serves an application at one path whatever the spelling: a redirect would lose a client's body or session."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "path": self._path, "raw_path": self._path.encode()}, receive, send)
