"""A backend that serves both eras, and not the same in each: every client sees and uses what its own era has."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_connections.proxy.access.client_access import ANONYMOUS
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.clients.stateless_client import StatelessClient
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

TOOLS = "notifications/tools/list_changed"
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class SecondEra:
    """The stateless era of a scripted backend, with a catalogue of its own."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.tools = ["common", "modern"]
        self.asked: list[str] = []
        self.refuses: HttpAnswer | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Event()
        backend.tool("common")
        backend.tool("old")
        backend.intercept = self._intercept

    def change(self, *tools: str) -> None:
        """Other tools from now on, and listeners are told."""
        self.tools = list(tools)
        self._changed.set()

    async def _intercept(self, seen: Seen) -> HttpAnswer | None:
        if seen.headers.get("mcp-protocol-version") != "2026-07-28":
            return None
        self.asked.append(seen.rpc)
        await self.gate.wait()
        if self.refuses is not None:
            return self.refuses
        if seen.rpc == "subscriptions/listen":
            await self._changed.wait()
            self._changed.clear()
            return self._stream(seen)
        answer = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {**COMPLETE, **self._result(seen)}}
        return HttpAnswer(200, json.dumps(answer).encode(), {"content-type": "application/json"})

    def _stream(self, seen: Seen) -> HttpAnswer:
        """The change, and the end of the stream: whoever wants more listens again."""
        subscription = {"io.modelcontextprotocol/subscriptionId": seen.message["id"]}
        changed = {"jsonrpc": "2.0", "method": TOOLS, "params": {"_meta": subscription}}
        end = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {"resultType": "complete", "_meta": subscription}}
        events = "".join(f"data: {json.dumps(message)}\n\n" for message in (changed, end))
        return HttpAnswer(200, events.encode(), {"content-type": "text/event-stream"})

    def _result(self, seen: Seen) -> dict[str, Any]:
        if seen.rpc == "server/discover":
            capabilities = {"tools": {"listChanged": True}, "completions": {}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "instructions": "modern ways"}
        if seen.rpc == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}
        assert seen.rpc == "tools/call"
        return {"content": [{"type": "text", "text": f"modern {seen.message['params']['name']}"}]}


@pytest.fixture
def second(backend: ScriptedBackend) -> SecondEra:
    backend.instructions = "old ways"
    return SecondEra(backend)


def stateless(proxy: RunningProxy) -> StatelessClient:
    return StatelessClient(proxy.http, proxy.url)


async def names(client: StatelessClient) -> list[str]:
    return [tool["name"] for tool in (await client.request("tools/list")).result["tools"]]


async def test_every_client_sees_and_uses_what_its_own_era_has(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    new = stateless(proxy)
    assert await names(new) == ["one_common", "one_modern"]
    assert (await new.call("one_common")).text == "modern common"
    assert (await new.call("one_modern")).text == "modern modern"
    assert (await new.call("one_old")).error["code"] == -32602
    old = await proxy.client()
    assert await old.names() == ["one_echo", "one_bump", "one_common", "one_old"]
    assert (await old.call("one_common")).text == "common"
    assert (await old.call("one_old")).text == "old"
    assert (await old.call("one_modern")).error["code"] == -32602


async def test_capabilities_and_instructions_are_those_of_the_era(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    discovered = (await stateless(proxy).request("server/discover")).result
    assert discovered["capabilities"] == {"tools": {"listChanged": True}, "completions": {}}
    assert discovered["instructions"] == "[one] modern ways"
    introduced = (await proxy.new_client().initialize()).result
    assert introduced["instructions"] == "[one] old ways"
    assert "logging" in introduced["capabilities"]


async def test_a_call_finds_the_second_era_without_a_list_before_it(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    assert (await stateless(proxy).call("one_modern")).text == "modern modern"


async def test_nothing_is_asked_of_the_second_era_for_clients_of_the_first(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    await client.names()
    await client.call("one_common")
    assert second.asked == []


async def test_changes_of_the_second_era_reach_its_clients_only(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    old, new = await proxy.client(listening=True), stateless(proxy)
    await names(new)
    await backend.until(lambda: "subscriptions/listen" in second.asked)
    await proxy.announced()
    async with new.listening(toolsListChanged=True) as listening:
        second.change("common", "late")
        await listening.hear(TOOLS)
        assert await names(new) == ["one_common", "one_late"]
        assert (await new.call("one_late")).text == "modern late"
    await proxy.announced()
    assert await old.names() == ["one_echo", "one_bump", "one_common", "one_old"]
    assert old.heard_of(TOOLS) == []


@pytest.mark.parametrize("status", [400, 404, 405, 406, 500])
async def test_a_backend_without_a_second_era_serves_everybody_the_same(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra, status: int
) -> None:
    second.refuses = HttpAnswer(status, b"what is this?", {"content-type": "text/plain"})
    await proxy.apply(http("one", backend.url))
    new = stateless(proxy)
    assert await names(new) == ["one_echo", "one_bump", "one_common", "one_old"]
    assert (await new.call("one_old")).text == "old"
    assert second.asked == ["server/discover"], "a refusal is remembered"


async def test_a_second_era_that_hangs_keeps_nobody_waiting_for_long(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.downstream.relay.FIRST_LIST_SECONDS", 0.05)
    second.gate.clear()
    await proxy.apply(http("one", backend.url))
    new = stateless(proxy)
    assert await names(new) == ["one_echo", "one_bump", "one_common", "one_old"]
    second.gate.set()
    await eventually(lambda: proxy.mount("one").public_for("stateless") is not proxy.mount("one").public)
    assert await names(new) == ["one_common", "one_modern"]


async def test_the_second_era_is_found_again_after_an_outage(
    proxy: RunningProxy, backend: ScriptedBackend, second: SecondEra
) -> None:
    await proxy.apply(http("one", backend.url))
    new = stateless(proxy)
    assert await names(new) == ["one_common", "one_modern"]
    second.tools = ["common", "later"]
    backend.lose_sessions()
    await (await proxy.client()).call("one_old")
    proxy.mount("one").suspect()
    await eventually(lambda: second.asked.count("server/discover") > 1 or second.asked.count("tools/list") > 1)
    await eventually(lambda: "one_later" in proxy.registry.view(ANONYMOUS, "stateless").targets["tool"])
    assert await names(new) == ["one_common", "one_later"]
