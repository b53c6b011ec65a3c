"""Text that is not UTF-8 (basic, "Messages": MCP is UTF-8): it ends where it comes from, and costs nobody else."""

from __future__ import annotations

import pytest

from tests.backends.calls import Call
from tests.backends.scripted import ScriptedBackend
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

BAD = b"\xff\xfe"


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one_echo","arguments":{"a":"%s"}}}' % BAD,
        b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % BAD,
        b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"a":"\xed\xa0\x80"}}',
    ],
)
async def test_requests_that_are_no_utf8_are_refused(
    proxy: RunningProxy, backend: ScriptedBackend, body: bytes
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    answer = await client.post(body)
    assert answer.status == 400
    assert answer.error["code"] == -32700
    assert "not UTF-8" in answer.error["message"]
    assert not backend.seen("tools/call")


async def test_batches_that_are_no_utf8_are_refused(proxy: RunningProxy) -> None:
    client = await proxy.client(version="2025-03-26")
    answer = await client.post(b'[{"jsonrpc":"2.0","id":"%s","method":"ping"}]' % BAD)
    assert answer.status == 400
    assert answer.error["code"] == -32700


@pytest.mark.parametrize("streams", [False, True])
async def test_one_bad_description_spoils_no_list(
    proxy: RunningProxy, make_backend: MakeBackend, *, streams: bool
) -> None:
    bad, good = await make_backend(), await make_backend()
    bad.answers_with_sse = streams
    bad.items["tools"].append(b'{"name":"odd","description":"a%sz","inputSchema":{"type":"object"}}' % BAD)
    await proxy.apply(http("bad", bad.url), http("good", good.url))
    client = await proxy.client()
    listed = await client.request("tools/list")
    listed.body.decode()
    tools = {tool["name"]: tool for tool in listed.result["tools"]}
    assert tools["bad_odd"]["description"] == "a\ufffd\ufffdz"
    assert "good_echo" in tools


@pytest.mark.parametrize("streams", [False, True])
async def test_answers_arrive_as_utf8(proxy: RunningProxy, backend: ScriptedBackend, *, streams: bool) -> None:
    async def raw(call: Call) -> bytes:
        return b'{"content":[{"type":"text","text":"\xc3\xa9 %s"}]}' % BAD

    backend.answers_with_sse = streams
    backend.tool("raw", raw)
    await proxy.apply(http("one", backend.url))
    client: Client = await proxy.client()
    assert (await client.call("one_raw")).text == "é \ufffd\ufffd"
