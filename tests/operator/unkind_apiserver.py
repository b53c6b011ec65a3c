"""An HTTP hop in front of the API server that answers some requests itself, the way an API server in trouble does."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import aiohttp
import yaml
from aiohttp import web

from tests.cluster.control_plane import ControlPlane

_HOP_BY_HOP = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length", "host"))


class Asked(NamedTuple):
    """A request of the operator."""

    method: str
    path: str
    query: dict[str, str]

    @property
    def watches(self) -> bool:
        return self.query.get("watch", "").lower() in ("true", "1")


class Trouble(NamedTuple):
    """What is answered in place of the API server."""

    code: int
    reason: str
    message: str
    headers: Mapping[str, str] = MappingProxyType({})

    def status(self) -> dict[str, Any]:
        """The metav1.Status."""
        return {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }


class UnkindApiServer:
    """``trouble`` decides over each request; None lets it through. Ending a watch is ``cut_watches``."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        self._origin = plane.url
        self._config = yaml.safe_load(kubeconfig.read_text())
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._http: aiohttp.ClientSession | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self.trouble: Callable[[Asked], Trouble | None] = lambda _: None
        self.asked: list[Asked] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        authority = self._config["clusters"][0]["cluster"]
        context = ssl.create_default_context(cafile=authority.get("certificate-authority"))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        assert self._runner is not None
        assert self._http is not None
        await self._runner.cleanup()
        await self._http.close()

    async def accept(self) -> None:
        """Listen, the second time on the same port again."""
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[-1][1]

    async def refuse(self) -> None:
        """Refuse connections, and end those that there are."""
        assert self._site is not None
        await self._site.stop()
        assert self._runner is not None
        assert self._runner.server is not None
        for connection in list(self._runner.server.connections):
            connection.force_close()
        self.cut_watches()

    def cut_watches(self) -> None:
        """End every watch in the middle."""
        for task in self._watches:
            task.cancel()

    def kubeconfig(self, path: Path) -> Path:
        """The same credentials, by way of this hop."""
        config = json.loads(json.dumps(self._config))
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path.write_text(json.dumps(config))
        return path

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query))
        self.asked.append(asked)
        trouble = self.trouble(asked)
        if trouble is not None:
            if asked.watches and trouble.code == 410:
                # A watch that began is told in its stream.
                return web.json_response({"type": "ERROR", "object": trouble.status()})
            return web.json_response(trouble.status(), status=trouble.code, headers=trouble.headers)
        assert self._http is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        body = await request.read()
        async with self._http.request(
            request.method,
            f"{self._origin}{request.rel_url}",
            headers=headers,
            data=body or None,
            skip_auto_headers=("Content-Type",),
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            task = asyncio.create_task(_pass_on(answer, response))
            if asked.watches:
                self._watches.add(task)
                task.add_done_callback(self._watches.discard)
            await asyncio.wait({task})
            return response


async def _pass_on(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    async for block in answer.content.iter_any():
        await response.write(block)
    await response.write_eof()
