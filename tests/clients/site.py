"""Four backends behind one proxy: two eras, two transports, each under a prefix of its own. And two more on demand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_connections.mounts.spec import MountSpec
from tests.clients.feature_http import FeatureHttp
from tests.clients.features import Message
from tests.clients.stateless_client import StatelessClient
from tests.proxy.client import Client, Declined
from tests.proxy.desired import http, stdio
from tests.proxy.running import RunningProxy

ROOT = Path(__file__).parents[2]
BACKENDS = ("hh", "hs", "sh", "ss")
"""Era, then transport: handshake or stateless, over HTTP or stdio."""
HANDSHAKE = ("hh", "hs")
STATELESS = ("sh", "ss")
BRIDGED = ("hb", "sb")
"""Era; over stdio behind a bridge."""
ALL = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
ROOTS = [{"uri": "file:///home/me", "name": "home"}]
SAMPLED = {
    "role": "assistant",
    "content": {"type": "text", "text": "not much"},
    "model": "model-1",
    "stopReason": "endTurn",
}


class Site:
    """The proxy, its backends, and clients that can answer everything."""

    def __init__(
        self,
        proxy: RunningProxy,
        handshake: FeatureHttp,
        stateless: FeatureHttp,
        bridged: Mapping[str, MountSpec],
        folder: Path,
    ) -> None:
        """``bridged``: mounts of those behind a bridge, none of which is mounted unless asked for."""
        self.proxy = proxy
        self.http = {"hh": handshake, "sh": stateless}
        self._bridged = bridged
        self._folder = folder
        self._round = 0

    async def mount(self, *prefixes: str) -> None:
        """Mount these backends anew, or all of them."""
        self._round += 1
        wanted = prefixes or BACKENDS
        await self.proxy.apply(*(self._spec(prefix) for prefix in wanted))
        await self.proxy.until_ready(*wanted)
        await self.proxy.announced()

    def _spec(self, prefix: str) -> Any:
        if prefix in self.http:
            return http(prefix, self.http[prefix].url, fingerprint=str(self._round))
        if prefix in self._bridged:
            return self._bridged[prefix].model_copy(update={"fingerprint": str(self._round)})
        return stdio(
            prefix, *program(prefix, self._folder), env={"PYTHONPATH": str(ROOT)}, fingerprint=str(self._round)
        )

    def stateless_client(self, **settings: Any) -> StatelessClient:
        """A client of 2026-07-28 that can be asked everything, unless told otherwise."""
        return StatelessClient(self.proxy.http, self.proxy.url, **{"capabilities": ALL, **settings})

    async def handshake_client(self, *, listening: bool = True, **settings: Any) -> Client:
        """A client of 2025-11-25 that answers everything, unless told otherwise."""
        client = await self.proxy.client(listening=listening, **{"capabilities": ALL, **settings})
        client.answerers.update(
            {"sampling/createMessage": sampled, "elicitation/create": elicited, "roots/list": listed_roots}
        )
        return client


def program(prefix: str, folder: Path) -> tuple[str, ...]:
    """The command of a backend over stdio."""
    era = "handshake" if prefix in ("hs", "hb") else "stateless"
    return (sys.executable, "-m", "tests.clients.feature_stdio", era, str(folder / prefix))


async def sampled(message: Message) -> Message:
    return SAMPLED


async def elicited(message: Message) -> Message:
    if message["params"].get("mode") == "url":
        return {"action": "accept"}
    return {"action": "accept", "content": {"name": "Ada"}}


async def listed_roots(message: Message) -> Message:
    return {"roots": ROOTS}


async def declined(message: Message) -> Message:
    raise Declined("the user is away")


ANSWERERS = {"sampling/createMessage": sampled, "elicitation/create": elicited, "roots/list": listed_roots}


async def answers_to(wanted: Message) -> dict[str, Message]:
    """What a stateless client answers to an ``input_required`` result."""
    return {key: await ANSWERERS[each["method"]](each) for key, each in wanted["inputRequests"].items()}
