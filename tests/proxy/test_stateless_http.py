"""The endpoint towards clients of the stateless era: statuses, versions, header values, the state between rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backends.calls import Call, RpcFault
from tests.backends.scripted import ScriptedBackend, text
from tests.clients.stateless_client import StatelessClient
from tests.proxy.client import Answer
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

FORM = b'{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}'


def new_client(proxy: RunningProxy, **capabilities: Any) -> StatelessClient:
    return StatelessClient(proxy.http, proxy.url, capabilities=capabilities)


@pytest.mark.parametrize(("code", "status"), [(-32021, 400), (-32602, 400), (-32601, 404), (-32603, 200), (-7, 200)])
async def test_the_error_of_a_backend_has_the_status_that_goes_with_its_code(
    proxy: RunningProxy, backend: ScriptedBackend, code: int, status: int
) -> None:
    async def failing(call: Call) -> Any:
        raise RpcFault(code, "no", {"requiredCapabilities": {"sampling": {}}})

    backend.tool("failing", failing)
    await proxy.apply(http("one", backend.url))
    answer = await new_client(proxy).call("one_failing")
    assert answer.status == status
    assert answer.error == {"code": code, "message": "no", "data": {"requiredCapabilities": {"sampling": {}}}}


async def test_discovery_and_refusal_name_the_same_versions(proxy: RunningProxy) -> None:
    client = new_client(proxy)
    discovered = (await client.request("server/discover")).result["supportedVersions"]
    unknown = "1900-01-01"
    meta = {"io.modelcontextprotocol/protocolVersion": unknown}
    refused = await client.request("server/discover", meta=meta, headers={"mcp-protocol-version": unknown})
    assert refused.status == 400
    assert refused.error["code"] == -32022
    assert refused.error["data"] == {"supported": discovered, "requested": unknown}


async def test_blanks_around_header_values_do_not_count(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    headers = {
        "mcp-name": "  one_bump \t ",
        "mcp-method": " tools/call ",
        "mcp-protocol-version": " 2026-07-28 ",
        "accept": " application/json,text/event-stream  ",
        "content-type": " application/json ",
    }
    answer = await new_client(proxy).request("tools/call", {"name": "one_bump"}, headers={**headers})
    assert answer.status == 200
    assert answer.text == "1"
    handshake = await proxy.client()
    blank = {"mcp_session_id": f"{handshake.session_id}  ", "mcp_protocol_version": "2025-11-25 "}
    assert (await handshake.request("ping", **blank)).result == {}


async def test_each_round_of_questions_has_a_state_of_its_own(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def asking(call: Call) -> Any:
        first = await call.ask("elicitation/create", FORM)
        second = await call.ask("elicitation/create", FORM)
        return text(json.dumps([first["result"]["content"], second["result"]["content"]]))

    backend.tool("asking", asking)
    await proxy.apply(http("one", backend.url))
    client = new_client(proxy, elicitation={})

    async def answered(before: Answer, content: Any) -> Answer:
        asked = before.result
        (key,) = asked["inputRequests"]
        responses = {key: {"action": "accept", "content": content}}
        return await client.call("one_asking", requestState=asked["requestState"], inputResponses=responses)

    first = await client.call("one_asking")
    second = await answered(first, {"n": 1})
    assert second.result["resultType"] == "input_required"
    assert second.result["requestState"] != first.result["requestState"]
    replayed = await answered(first, {"n": "again"})
    assert replayed.error["code"] == -32602
    assert (await answered(second, {"n": 2})).text == '[{"n": 1}, {"n": 2}]'
