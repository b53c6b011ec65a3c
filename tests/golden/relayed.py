"""The same question asked of a golden server directly and through the proxy, by clients of both eras."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.clients.stateless_client import StatelessClient
from tests.golden.catalogues import Catalogue
from tests.golden.eras import required_of_server
from tests.golden.json_text import Style, dumps, loads
from tests.golden.results import Answered
from tests.golden.server import Era, GoldenServer, Lists, Outcome
from tests.proxy.client import Answer, Client
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

IDENTITY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
DEBUG = "io.modelcontextprotocol/logLevel"


@dataclass(frozen=True)
class Pair:
    """A client in front of a backend."""

    client: Era
    backend: Era

    @property
    def prefix(self) -> str:
        """That of the backend."""
        return PREFIXES[self.backend]


PREFIXES: dict[Era, str] = {"handshake": "h", "stateless": "s"}
ERAS: tuple[Era, ...] = ("handshake", "stateless")
PAIRS = tuple(Pair(client, backend) for client, backend in itertools.product(ERAS, ERAS))


class Golden:
    """Two golden servers, the proxy in front of both, and clients of all of them."""

    def __init__(self, proxy: RunningProxy, servers: dict[Era, GoldenServer]) -> None:
        self.proxy = proxy
        self.servers = servers
        self._fingerprints = itertools.count(1)
        self._handshake = {url: Client(proxy.http, url) for url in self._urls()}
        self._stateless = {url: StatelessClient(proxy.http, url) for url in self._urls()}

    @classmethod
    async def of(cls, proxy: RunningProxy, handshake: GoldenServer, stateless: GoldenServer) -> Golden:
        """Ready to be asked."""
        golden = cls(proxy, {"handshake": handshake, "stateless": stateless})
        await golden.mount()
        await golden._handshake[proxy.url].initialize()
        return golden

    def _urls(self) -> Iterable[str]:
        return self.proxy.url, *(server.url for server in self.servers.values())

    async def mount(self) -> None:
        """Have the proxy read both servers' lists anew."""
        fingerprint = str(next(self._fingerprints))
        mounts = [
            http(PREFIXES[era], server.url, fingerprint=fingerprint, prefix=PREFIXES[era])
            for era, server in self.servers.items()
        ]
        await self.proxy.apply(*mounts)
        await self.proxy.until_ready(*PREFIXES.values())

    async def offer(self, catalogue: Catalogue) -> None:
        """Have both servers list the same, and answer each call with whose it is."""
        pages = {
            member: [
                [dumps(item, catalogue.style) for item in items[start : start + catalogue.page_size]]
                for start in range(0, max(1, len(items)), catalogue.page_size)
            ]
            for member, items in catalogue.items.items()
        }
        for server in self.servers.values():
            server.lists = Lists(pages)
            server.outcomes.clear()
        await self.mount()

    def answer(self, method: str, own: str, answered: Answered, style: Style | None = None) -> None:
        """Have both servers answer ``method`` for their own name or URI."""
        for era, server in self.servers.items():
            value = answered.value
            if era == "stateless" and answered.member == "result":
                value = required_of_server(method, value)
            notices = tuple((name, dumps(params, style).strip()[1:-1].strip()) for name, params in answered.notices)
            member = answered.member
            assert member in ("result", "error")
            server.outcomes[method, own] = Outcome(
                "result" if member == "result" else "error", dumps(value, style), notices
            )

    async def direct(self, era: Era, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Ask a server itself, in its own era."""
        return await self.ask(era, self.servers[era].url, method, params)

    async def proxied(
        self, era: Era, method: str, params: dict[str, Any] | None = None, request_id: Any = None
    ) -> Answer:
        """Ask the proxy, as a client of ``era``."""
        return await self.ask(era, self.proxy.url, method, params, request_id)

    async def ask(
        self, era: Era, url: str, method: str, params: dict[str, Any] | None, request_id: Any = None
    ) -> Answer:
        """Ask, log messages and progress included."""
        if era == "handshake":
            raw = None if params is None else dumps(params)
            return await self._handshake[url].request(method, raw, request_id=request_id)
        params = dict(params or {})
        meta = {DEBUG: "debug", **params.pop("_meta", {})}
        return await self._stateless[url].request(method, params, meta=meta, request_id=request_id)

    async def ask_raw(self, era: Era, method: str, params: bytes, name: str) -> Answer:
        """Ask the proxy with params as they are, but for the ``_meta`` that they must not have."""
        url = self.proxy.url
        if era == "handshake":
            return await self._handshake[url].request(method, params)
        client = self._stateless[url]
        params = params[:-1] + b',"_meta":%s}' % dumps(client.meta())
        body = b'{"jsonrpc":"2.0","id":1,"method":%s,"params":%s}' % (dumps(method), params)
        return await client.post(body, client.headers(method, {"name": name}))

    async def listed(self, era: Era, method: str, member: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The proxy's list result less the list itself, and the list."""
        result = loads((await self.proxied(era, method)).raw())
        items: list[dict[str, Any]] = result.pop(member)
        return result, items

    async def listed_directly(self, era: Era, method: str, member: str) -> list[dict[str, Any]]:
        """All pages of a server's list."""
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            params = None if cursor is None else {"cursor": cursor}
            result = loads((await self.direct(era, method, params)).raw())
            items += result[member]
            if (cursor := result.get("nextCursor")) is None:
                return items
