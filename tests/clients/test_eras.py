"""Which era a backend is of: found at once, remembered, and found again when another backend takes its place."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.clients.feature_http import FeatureHttp
from tests.clients.features import Era
from tests.clients.site import ALL, BACKENDS, HANDSHAKE, ROOT, Site
from tests.clients.stateless_client import PREFIX, StatelessClient
from tests.proxy.desired import http, stdio
from tests.proxy.running import RunningProxy, eventually, running_proxy


@pytest.fixture
async def proxy() -> AsyncIterator[RunningProxy]:
    async with running_proxy() as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def serving(era: Era) -> AsyncIterator[FeatureHttp]:
    async with FeatureHttp(era).serving() as backend:
        yield backend


def version_of(proxy: RunningProxy) -> str | None:
    server = proxy.report("b").server
    return None if server is None else server.protocol_version


async def echoes(proxy: RunningProxy) -> None:
    """Clients of both eras can call the backend."""
    stateless = StatelessClient(proxy.http, proxy.url, capabilities=ALL)
    handshake = await proxy.client(capabilities=ALL)
    for client in (stateless, handshake):
        answer = await client.call("b_echo", {"a": 1})
        assert json.loads(answer.text) == {"a": 1}


@pytest.mark.parametrize(("era", "version"), [("handshake", "2025-11-25"), ("stateless", "2026-07-28")])
async def test_the_era_is_found_with_one_request_too_many_at_most(proxy: RunningProxy, era: Era, version: str) -> None:
    async with serving(era) as backend:
        result = await proxy.apply(http("b", backend.url))
        assert result.skipped == ()
        assert version_of(proxy) == version
        wrong = [each for each in backend.headers if "mcp-protocol-version" not in each]
        assert len(wrong) <= 1
        await echoes(proxy)


async def test_the_era_is_remembered(proxy: RunningProxy) -> None:
    async with serving("stateless") as backend:
        await proxy.apply(http("b", backend.url))
        await echoes(proxy)
        backend.headers.clear()
        for _ in range(3):
            await echoes(proxy)
        assert all(each["mcp-protocol-version"] == "2026-07-28" for each in backend.headers)
        assert "server/discover" not in {each["mcp-method"] for each in backend.headers}
        await backend.server.stop()
        await eventually(lambda: not proxy.mount("b").ready)
        await backend.server.start()
        await eventually(lambda: proxy.mount("b").ready)
        await echoes(proxy)
        assert "mcp-protocol-version" in backend.headers[0], "the era that was is tried first"


@pytest.mark.parametrize(("before", "after"), [("handshake", "stateless"), ("stateless", "handshake")])
async def test_a_backend_replaced_by_one_of_the_other_era_is_found_again(
    proxy: RunningProxy, before: Era, after: Era
) -> None:
    async with serving(before) as backend:
        await proxy.apply(http("b", backend.url))
        old = version_of(proxy)
        stateless = StatelessClient(proxy.http, proxy.url, capabilities=ALL)
        handshake = await proxy.client(capabilities=ALL, listening=True)
        for client in (stateless, handshake):
            await client.call("b_echo")
        backend.become(after)
        for client in (stateless, handshake):
            # The first call may be what tells that the backend is another one.
            await client.call("b_echo")
        await eventually(lambda: version_of(proxy) not in (old, None) and proxy.mount("b").ready)
        for client in (stateless, handshake):
            answer = await client.call("b_echo", {"again": True})
            assert json.loads(answer.text) == {"again": True}
        await echoes(proxy)


REFUSALS: list[Any] = [
    HttpAnswer(400, b"Bad Request: no valid session", {"content-type": "text/plain"}),
    HttpAnswer(400, b"", {}),
    HttpAnswer(404, b'{"detail":"not found"}', {"content-type": "application/json"}),
    HttpAnswer(405, b"", {}),
    HttpAnswer(406, b"", {}),
    HttpAnswer(415, b"", {}),
    HttpAnswer(500, b"boom", {}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str((refusal.status, refusal.body)))
async def test_however_a_handshake_backend_refuses_the_other_era_stateless_clients_can_use_it(
    proxy: RunningProxy, refusal: HttpAnswer
) -> None:
    backend = ScriptedBackend()

    async def refuse(seen: Seen) -> HttpAnswer | None:
        return refusal if seen.rpc == "server/discover" else None

    backend.intercept = refuse
    async with backend.serving() as url:
        await proxy.apply(http("b", url))
        client = StatelessClient(proxy.http, proxy.url)
        assert (await client.call("b_bump")).text == "1"
        assert (await client.call("b_bump")).text == "2"
        assert len(backend.seen("server/discover")) <= 1


async def test_a_stdio_backend_of_the_other_era_is_found(proxy: RunningProxy, tmp_path: Any) -> None:
    for number, era in enumerate(("stateless", "handshake")):
        command = (sys.executable, "-m", "tests.clients.feature_stdio", era, str(tmp_path / "state"))
        await proxy.apply(stdio("b", *command, env={"PYTHONPATH": str(ROOT)}, fingerprint=str(number)))
        await proxy.until_ready("b")
        await echoes(proxy)
        assert version_of(proxy) == ("2026-07-28" if era == "stateless" else "2025-11-25")


# how the proxy introduces itself


async def test_discovery_says_what_the_backends_have_together(site: Site) -> None:
    result = (await site.stateless_client().request("server/discover")).result
    capabilities = {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    assert result["capabilities"] == capabilities
    assert result["resultType"] == "complete"
    assert "2026-07-28" in result["supportedVersions"]
    assert result["ttlMs"] == 0
    assert result["cacheScope"] == "private"
    assert result["_meta"][f"{PREFIX}/serverInfo"]["name"] == "mcp-connections"
    handshake = await site.proxy.new_client().initialize()
    assert handshake.result["capabilities"] == capabilities
    for prefix in BACKENDS:
        line = "Shake hands." if prefix in HANDSHAKE else "Be stateless."
        assert f"[{prefix}] {line}" in result["instructions"]
        assert f"[{prefix}] {line}" in handshake.result["instructions"]


async def test_capabilities_are_those_of_the_backends_there_are(proxy: RunningProxy) -> None:
    client = StatelessClient(proxy.http, proxy.url)
    assert (await client.request("server/discover")).result["capabilities"] == {"tools": {"listChanged": True}}
    backend = ScriptedBackend()
    backend.capabilities = {"tools": {}, "prompts": {}}
    async with backend.serving() as url:
        await proxy.apply(http("b", url))
        result = (await client.request("server/discover")).result
        assert result["capabilities"] == {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
        assert "instructions" not in result


async def test_a_backend_is_told_the_truth_about_its_client(site: Site) -> None:
    client = site.stateless_client(capabilities={"roots": {}}, name="honest")
    for prefix in ("hh", "sh"):
        await client.call(f"{prefix}_echo")
    (session,) = [each for each in site.http["hh"].sessions.values() if each.hello["clientInfo"]["name"] == "honest"]
    assert session.hello["capabilities"] == {"roots": {}}
    meta = next(each.meta for each in site.http["sh"].features.seen if each.method == "tools/call")
    assert meta[f"{PREFIX}/clientInfo"] == {"name": "honest", "version": "9"}
    assert meta[f"{PREFIX}/clientCapabilities"] == {"roots": {}}
    handshake = await site.handshake_client(capabilities={"sampling": {}}, name="other")
    await handshake.call("sh_echo")
    meta = [each.meta for each in site.http["sh"].features.seen if each.method == "tools/call"][-1]
    assert meta[f"{PREFIX}/clientInfo"]["name"] == "other"
    assert meta[f"{PREFIX}/clientCapabilities"] == {"sampling": {}}
    assert meta[f"{PREFIX}/protocolVersion"] == "2026-07-28"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_clients_of_every_version_with_a_handshake_can_use_backends_of_both_eras(
    site: Site, version: str
) -> None:
    client = await site.handshake_client(version=version)
    assert client.version == version
    for prefix in BACKENDS:
        assert json.loads((await client.call(f"{prefix}_echo", {"a": 1})).text) == {"a": 1}
        assert json.loads((await client.call(f"{prefix}_rounds")).text) == ["Ada", 1, "accept"]
        answer = await client.request("resources/read", {"uri": f"urn:{prefix}:x:1"})
        assert answer.result["contents"][0]["blob"] == "AAEC"


async def test_a_batch_is_no_request_of_the_stateless_era(site: Site) -> None:
    client = site.stateless_client()
    params: Any = {"_meta": client.meta()}
    body = b"[%s]" % client.body("tools/list", params)
    answer = await client.post(body, client.headers("tools/list", params))
    assert answer.status == 400
    assert answer.error["code"] == -32600
    assert "batch" in answer.error["message"]
