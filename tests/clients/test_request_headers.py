"""Mcp-Method, Mcp-Name and Mcp-Param-*: checked on the way in, made anew on the way out.

(MCP 2026-07-28, basic/transports/streamable-http, Request Metadata.)
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.clients import features
from tests.clients.features import Message
from tests.clients.site import BACKENDS, Site
from tests.clients.stateless_client import StatelessClient, header_value
from tests.proxy.client import Answer

HEADER_MISMATCH = -32020


async def region(client: StatelessClient, backend: str, arguments: Message, **params: str | None) -> Answer:
    """Call the tool that has some of its arguments in headers."""
    headers = {f"mcp-param-{name}": value for name, value in params.items()}
    return await client.request(
        "tools/call", {"name": f"{backend}_region", "arguments": arguments}, headers=dict(headers)
    )


def mismatch(answer: Answer) -> None:
    assert answer.status == 400
    assert answer.error["code"] == HEADER_MISMATCH


@pytest.mark.parametrize("backend", ["hh", "sh"])
@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-method": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": "Tools/Call"},
        {"mcp-name": None},
        {"mcp-name": "other"},
        {"mcp-name": "=?base64?!!!?="},
        {"mcp-name": "=?base64?b3RoZXI=?="},
    ],
    ids=str,
)
async def test_headers_that_differ_from_the_body_are_refused(
    site: Site, backend: str, headers: dict[str, str | None]
) -> None:
    client = site.stateless_client()
    mismatch(await client.request("tools/call", {"name": f"{backend}_echo"}, headers=headers))
    assert not any(each.method == "tools/call" for each in site.http[backend].features.seen)


async def test_a_name_may_be_encoded_where_it_need_not_be(site: Site) -> None:
    client = site.stateless_client()
    encoded = f"=?base64?{base64.b64encode(b'hh_echo').decode()}?="
    answer = await client.request("tools/call", {"name": "hh_echo"}, headers={"mcp-name": encoded})
    assert answer.text == "{}"


async def test_a_header_given_twice_is_refused(site: Site) -> None:
    client = site.stateless_client()
    params = {"name": "hh_echo", "_meta": client.meta()}
    body = client.body("tools/call", params)
    headers = [*client.headers("tools/call", params).items(), ("mcp-name", "hh_echo")]
    async with client.http.post(client.url, data=body, headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == HEADER_MISMATCH


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "completion/complete"])
async def test_other_methods_need_no_name(site: Site, method: str) -> None:
    params: Message = {}
    if method == "completion/complete":
        params = {"ref": {"type": "ref/prompt", "name": "hh_greet"}, "argument": {"name": "name", "value": ""}}
    assert "result" in (await site.stateless_client().request(method, params)).response


async def test_the_version_has_to_be_the_same_in_header_and_body(site: Site) -> None:
    client = site.stateless_client()
    version = "io.modelcontextprotocol/protocolVersion"
    mismatch(await client.request("tools/list", meta={version: "2025-11-25"}))
    mismatch(await client.request("tools/list", headers={"mcp-protocol-version": None}))
    answer = await client.request(
        "tools/list", meta={version: "2099-01-01"}, headers={"mcp-protocol-version": "2099-01-01"}
    )
    assert answer.status == 400
    assert answer.error["code"] == -32022
    assert "2026-07-28" in answer.error["data"]["supported"]
    assert answer.error["data"]["requested"] == "2099-01-01"


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_what_every_request_must_have_is_required(site: Site, missing: str) -> None:
    client = site.stateless_client()
    meta = client.meta()
    del meta[f"io.modelcontextprotocol/{missing}"]
    params = {"_meta": meta}
    answer = await client.post(client.body("tools/list", params), client.headers("tools/list", params))
    assert answer.status == 400
    assert answer.error["code"] == -32602


async def test_an_unknown_method_is_not_found(site: Site) -> None:
    client = site.stateless_client()
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"):
        answer = await client.request(method, {})
        assert answer.status == 404, method
        assert answer.error["code"] == -32601


# arguments in headers

VALUES: list[tuple[Message, dict[str, str | None]]] = [
    ({"region": "us-west1"}, {"region": "us-west1"}),
    ({"region": "Grüße 世界"}, {"region": header_value("Grüße 世界")}),
    ({"region": " padded "}, {"region": header_value(" padded ")}),
    ({"region": "line1\nline2"}, {"region": header_value("line1\nline2")}),
    ({"region": "=?base64?literal?="}, {"region": header_value("=?base64?literal?=")}),
    ({"region": ""}, {"region": ""}),
    ({"deep": {"n": 42}}, {"n": "42"}),
    ({"region": None, "plain": "x"}, {}),
    ({}, {}),
]


@pytest.mark.parametrize(("arguments", "headers"), VALUES, ids=[str(each[0]) for each in VALUES])
@pytest.mark.parametrize("backend", BACKENDS)
async def test_arguments_in_headers_reach_the_backend(
    site: Site, backend: str, arguments: Message, headers: dict[str, str | None]
) -> None:
    """The proxy is a client of the backend's: it makes the headers itself, whatever the transport of its own client
    was, and a backend that is reached without headers gets none."""
    client = site.stateless_client()
    seen = json.loads((await region(client, backend, arguments, **headers)).text)
    mirrored = {name: value for name, value in seen.items() if name.startswith("mcp-param-")}
    if backend != "sh":
        assert mirrored == {}
        return
    assert mirrored == {f"mcp-param-{name}": value for name, value in headers.items()}
    assert (seen["mcp-method"], seen["mcp-name"]) == ("tools/call", "region")
    handshake = await site.handshake_client()
    assert json.loads((await handshake.call("sh_region", arguments)).text) == seen


@pytest.mark.parametrize("backend", ["hh", "sh", "ss"])
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "a"}, {}),
        ({"region": "a"}, {"region": "b"}),
        ({"region": "a"}, {"region": "=?base64?!?="}),
        ({"deep": {"n": 42}}, {"n": "41"}),
    ],
    ids=str,
)
async def test_arguments_that_differ_from_their_headers_are_refused(
    site: Site, backend: str, arguments: Message, headers: dict[str, str | None]
) -> None:
    mismatch(await region(site.stateless_client(), backend, arguments, **headers))


@pytest.mark.parametrize("value", ["42", "42.0"])
async def test_numbers_are_compared_as_numbers(site: Site, value: str) -> None:
    answer = await region(site.stateless_client(), "sh", {"deep": {"n": 42}}, n=value)
    assert json.loads(answer.text)["mcp-param-n"] == "42"


@pytest.mark.parametrize("uri", ["doc://sh/é ü", "doc://sh/a?b=c#d", "urn:sh:x:1"])
async def test_a_uri_that_is_no_header_value_is_encoded(site: Site, uri: str) -> None:
    client = site.stateless_client()
    await client.request("resources/read", {"uri": uri})
    own = uri.replace("//sh/", "//").replace("urn:sh:", "urn:")
    assert site.http["sh"].headers[-1]["mcp-name"] == header_value(own)


async def test_the_proxys_own_requests_have_their_headers_too(site: Site) -> None:
    methods = {headers.get("mcp-method") for headers in site.http["sh"].headers}
    assert {"server/discover", "tools/list", "resources/list", "prompts/list"} <= methods
    assert all(headers["mcp-protocol-version"] == "2026-07-28" for headers in site.http["sh"].headers[-4:])


async def test_a_client_of_the_other_era_needs_none_of_it(site: Site) -> None:
    handshake = await site.handshake_client()
    answer = await handshake.call("sh_region", {"region": "here", "deep": {"n": 7}})
    seen: Any = json.loads(answer.text)
    assert seen["mcp-param-region"] == "here"
    assert seen["mcp-param-n"] == "7"


BAD_HEADERS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
    {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": ""}}},
    {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"x-mcp-header": "a"}}},
    {"type": "object", "x-mcp-header": 7},
]


@pytest.mark.parametrize("schema", BAD_HEADERS, ids=str)
async def test_a_tool_with_bad_headers_is_left_out_only_where_there_are_headers(
    site: Site, schema: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend of the handshake era may mean something else by the same word."""
    monkeypatch.setitem(features.SCHEMAS, "region", schema)
    await site.mount()
    for client in (await site.handshake_client(), site.stateless_client()):
        names = [each["name"] for each in (await client.request("tools/list")).result["tools"]]
        assert ("hh_region" in names, "sh_region" in names) == (True, False)
        assert "sh_echo" in names
    (note,) = site.proxy.report("sh").catalog.skipped
    assert note.name == "region"
    assert "x-mcp-header" in note.reason
