"""Reading a backend's lists: pages, cursors, limits, and items that are not what they should be."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_connections.mounts.spec import BackendLimits, CatalogPolicy, Timeouts
from mcp_connections.proxy.catalogue import discovery
from tests.backends.calls import Call, RpcFault
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy


async def test_all_pages_are_read_in_order_each_once(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    for number in range(93):
        backend.tool(f"tool{number:03}")
        backend.resource(f"doc://{number:03}")
    backend.page_size = 10
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    expected = ["one_echo", "one_bump", *(f"one_tool{number:03}" for number in range(93))]
    assert await client.names() == expected
    assert await client.names("resources/list") == [f"doc://one/{number:03}" for number in range(93)]
    assert (await client.call("one_tool092")).text == "tool092"
    assert len(backend.seen("tools/list")) == 10
    cursors = [seen.message["params"].get("cursor") for seen in backend.seen("tools/list")]
    assert cursors == [None, *(str(number) for number in range(10, 95, 10))]
    for _ in range(5):
        await client.names()
    assert len(backend.seen("tools/list")) == 10, "clients are answered from the snapshot"


@pytest.mark.parametrize("cursor", [b'"same"', b'{"opaque":[1.0]}', b'""'])
async def test_a_cursor_that_comes_back_ends_the_list(
    proxy: RunningProxy, backend: ScriptedBackend, cursor: bytes
) -> None:
    async def same_cursor(call: Call) -> Any:
        return b'{"tools":[%s],"nextCursor":%s}' % (b",".join(backend.items["tools"]), cursor)

    backend.handlers["tools/list"] = same_cursor
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert await client.names() == ["one_echo", "one_bump"]
    assert len(backend.seen("tools/list")) == 2
    report = proxy.report("one")
    assert report.ready
    assert "repeats a cursor" in " ".join(note.reason for note in report.catalog.notices)
    assert {note.name for note in report.catalog.skipped} == {"echo", "bump"}
    cursors = [json.dumps(seen.message["params"].get("cursor")) for seen in backend.seen("tools/list")]
    assert cursors == ["null", json.dumps(json.loads(cursor))]


async def test_a_list_without_end_is_cut_off_after_fifty_pages(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def always_new(call: Call) -> Any:
        page = int(call.params.get("cursor", "0"))
        tool = {"name": f"tool{page}", "inputSchema": {"type": "object"}}
        return {"tools": [tool], "nextCursor": str(page + 1)}

    backend.handlers["tools/list"] = always_new
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert await client.names() == [f"one_tool{number}" for number in range(50)]
    assert len(backend.seen("tools/list")) == 50
    notices = proxy.report("one").catalog.notices
    assert [(note.kind, note.name) for note in notices] == [("list", "tools/list")]
    assert "more than 50 pages" in notices[0].reason


async def test_fewer_pages_can_be_asked_for(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    for number in range(10):
        backend.tool(f"tool{number}")
    backend.page_size = 2
    await proxy.apply(http("one", backend.url, limits=BackendLimits(list_pages=3)))
    assert len(await (await proxy.client()).names()) == 6
    (notice,) = proxy.report("one").catalog.notices
    assert "more than 3 pages" in notice.reason
    assert "spec.limits.listPages" in notice.reason


async def test_items_and_bytes_of_a_list_are_bounded(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MAX_BYTES", 1000)
    for number in range(10):
        backend.tool(f"tool{number}")
    backend.resource("doc://small")
    backend.resource("doc://large", description="x" * 2000)
    backend.resource("doc://behind")
    await proxy.apply(http("one", backend.url, limits=BackendLimits(list_items=5)))
    client = await proxy.client()
    assert len(await client.names()) == 5
    assert await client.names("resources/list") == ["doc://one/small"]
    reasons = {note.name: note.reason for note in proxy.report("one").catalog.notices}
    assert "cut off after 5 items" in reasons["tools/list"]
    assert "cut off after 1 items" in reasons["resources/list"]


@pytest.mark.parametrize(
    ("item", "name", "reason"),
    [
        (b'{"name":"bad"}', "bad", "inputSchema is missing"),
        (b'{"name":"bad","inputSchema":null}', "bad", "inputSchema is no object"),
        (b'{"name":"bad","inputSchema":[]}', "bad", "inputSchema is no object"),
        (b'{"inputSchema":{}}', '{"inputSchema":{}}', "name is missing or no string"),
        (b'{"name":7,"inputSchema":{}}', '{"name":7,"inputSchema":{}}', "name is missing or no string"),
        (b"null", "null", "name is missing or no string"),
        (b'"echo"', '"echo"', "name is missing or no string"),
        (b"[]", "[]", "name is missing or no string"),
        (b'{"name":"echo","inputSchema":{}}', "echo", "listed more than once"),
    ],
)
async def test_a_malformed_item_hides_nothing_of_its_neighbours(
    proxy: RunningProxy, backend: ScriptedBackend, item: bytes, name: str, reason: str
) -> None:
    backend.add_item("tools", item)
    backend.tool("after")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert await client.names() == ["one_echo", "one_bump", "one_after"]
    (note,) = proxy.report("one").catalog.skipped
    assert (note.kind, note.name) == ("tool", name)
    assert reason in note.reason
    assert proxy.report("one").ready
    assert (await client.call("one_after")).text == "after"


@pytest.mark.parametrize(
    ("member", "item"),
    [
        ("resources", b'{"uri":"doc://bad"}'),
        ("resources", b'{"name":"bad"}'),
        ("resources", b'{"uri":null,"name":"bad"}'),
        ("resourceTemplates", b'{"uriTemplate":"doc://{x}"}'),
        ("resourceTemplates", b'{"uri":"doc://bad","name":"bad"}'),
        ("prompts", b'{"description":"nameless"}'),
        ("prompts", b"17"),
    ],
)
async def test_malformed_items_of_every_kind_are_left_out_and_reported(
    proxy: RunningProxy, backend: ScriptedBackend, member: str, item: bytes
) -> None:
    backend.resource("doc://good")
    backend.template("doc://good/{id}")
    backend.add_item("prompts", {"name": "good"})
    backend.add_item(member, item)
    await proxy.apply(http("one", backend.url))
    catalog = proxy.report("one").catalog
    assert (catalog.tools, catalog.resources, catalog.resource_templates, catalog.prompts) == (2, 1, 1, 1)
    assert len(catalog.skipped) == 1


@pytest.mark.parametrize("result", [b"{}", b'{"tools":null}', b'{"tools":{}}', b'{"tools":"x"}', b'{"tools":[]}'])
async def test_a_list_that_is_none_is_empty_and_hides_no_other_list(
    proxy: RunningProxy, backend: ScriptedBackend, result: bytes
) -> None:
    async def odd(call: Call) -> Any:
        return result

    backend.handlers["tools/list"] = odd
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert await client.names() == []
    assert await client.names("resources/list") == ["doc://one/a"]
    assert proxy.report("one").ready


@pytest.mark.parametrize("result", [b"null", b"[]", b"3"])
async def test_a_result_that_is_no_object_is_an_error_of_the_backend(
    proxy: RunningProxy, backend: ScriptedBackend, result: bytes
) -> None:
    async def odd(call: Call) -> Any:
        return result

    backend.handlers["tools/list"] = odd
    await proxy.apply(http("one", backend.url))
    report = proxy.report("one")
    assert (report.reason, report.phase) == ("ProtocolError", "Discover")
    assert "tools/list" in report.message


async def test_a_declared_list_that_is_not_implemented_is_empty(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def missing(call: Call) -> Any:
        raise RpcFault(-32601, "Method not found")

    backend.handlers["resources/templates/list"] = backend.handlers["prompts/list"] = missing
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url))
    assert proxy.report("one").ready
    assert proxy.report("one").catalog.resources == 1


async def test_a_list_that_fails_is_an_error_and_one_that_fails_later_keeps_its_pages(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.page_size = 1
    fails_at: str | None = None

    async def failing(call: Call) -> Any:
        if call.params.get("cursor") == fails_at:
            raise RpcFault(-32603, "disk on fire")
        start = int(call.params.get("cursor", "0"))
        return b'{"tools":[%s],"nextCursor":"%d"}' % (backend.items["tools"][start], start + 1)

    backend.handlers["tools/list"] = failing
    await proxy.apply(http("one", backend.url))
    report = proxy.report("one")
    assert (report.reason, report.phase) == ("ProtocolError", "Discover")
    assert "disk on fire (-32603)" in report.message

    fails_at = "1"
    await proxy.apply(http("one", backend.url, fingerprint="2"))
    assert proxy.report("one").ready
    assert proxy.report("one").catalog.names == ("one_echo",)
    (notice,) = proxy.report("one").catalog.notices
    assert "a further page failed: disk on fire" in notice.reason


async def test_only_what_the_backend_declares_is_listed(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.capabilities = {"tools": {}}
    backend.resource("doc://undeclared")
    await proxy.apply(http("one", backend.url))
    listed = {seen.rpc for seen in backend.requests if seen.rpc.endswith("list")}
    assert listed == {"tools/list"}
    result = (await proxy.new_client().initialize()).result
    assert result["capabilities"] == {"tools": {"listChanged": True}}


async def test_the_lists_are_read_again_at_the_refresh_interval(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.refuses_get = 405  # nothing will tell of changes
    await proxy.apply(http("one", backend.url, catalog=CatalogPolicy(refresh_interval=0.2)))
    client = await proxy.client()
    backend.tool("late")
    await proxy.until(lambda: "one_late" in proxy.report("one").catalog.names)
    assert "one_late" in await client.names()


async def test_a_refresh_that_fails_keeps_the_last_lists(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, catalog=CatalogPolicy(refresh_interval=0.1)))
    listed = len(backend.seen("tools/list"))

    async def broken(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(500) if seen.rpc == "tools/list" else None

    backend.intercept = broken
    await backend.until(lambda: len(backend.seen("tools/list")) >= listed + 3)
    report = proxy.report("one")
    assert report.ready
    assert report.catalog.names == ("one_echo", "one_bump")


async def test_lists_that_hang_end_at_the_time_limit_of_a_request(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    async def hang(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "prompts/list":
            await asyncio.Event().wait()
        return None

    backend.intercept = hang
    await proxy.apply(http("one", backend.url, timeouts=Timeouts(request=0.2)))
    report = proxy.report("one")
    assert (report.reason, report.phase) == ("Timeout", "Discover")


async def test_lists_of_megabytes_arrive(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.answers_with_sse = True
    for number in range(1030):
        backend.tool(f"tool{number}", description="d" * 2000)
    await proxy.apply(http("one", backend.url))
    await proxy.until_ready("one")
    client = await proxy.client()
    assert len(await client.names()) == 1032
    assert len(proxy.report("one").catalog.names) == 50


async def test_the_hash_tells_of_every_change_and_of_nothing_else(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    async def digest(fingerprint: str) -> str:
        await proxy.apply(http("one", backend.url, fingerprint=fingerprint))
        await proxy.until_ready("one")
        return proxy.report("one").catalog.hash

    first = await digest("1")
    assert await digest("2") == first
    backend.items["tools"][0] = backend.items["tools"][0].replace(b'"object"', b'"object","x":1')
    second = await digest("3")
    assert second != first
    backend.items["tools"][0] = backend.items["tools"][0].replace(b',"x":1', b"")
    assert await digest("4") == first
