"""What clients say of themselves is kept as long as they are known, so it is bounded."""

from __future__ import annotations

import pytest

from mcp_connections.proxy.wire.hello import MAX_HELLO_BYTES
from tests.clients.stateless_client import StatelessClient
from tests.proxy.running import RunningProxy


@pytest.mark.parametrize("member", ["clientInfo", "capabilities"])
async def test_a_long_introduction_is_refused(proxy: RunningProxy, member: str) -> None:
    client = proxy.new_client()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = await client.request("initialize", {**params, member: {"name": "x" * MAX_HELLO_BYTES}})
    assert answer.status == 400
    assert answer.error["code"] == -32602
    assert str(MAX_HELLO_BYTES) in answer.error["message"]
    assert len(proxy.process.sessions) == 0
    assert (await client.request("initialize", params)).status == 200


async def test_a_long_introduction_of_a_stateless_client_is_refused(proxy: RunningProxy) -> None:
    client = StatelessClient(proxy.http, proxy.url, capabilities={"experimental": {"x": "x" * MAX_HELLO_BYTES}})
    answer = await client.request("server/discover")
    assert answer.status == 400
    assert answer.error["code"] == -32602
