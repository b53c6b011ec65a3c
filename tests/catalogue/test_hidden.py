"""What is hidden is not there for clients of either era, whatever they ask and however."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.mounts.spec import MountSpec, Selection, ToolSelection
from tests.backends.calls import Call
from tests.backends.scripted import ScriptedBackend, text
from tests.clients.stateless_client import StatelessClient
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

AnyClient = Client | StatelessClient


@pytest.fixture(params=["handshake", "stateless"])
async def era(request: pytest.FixtureRequest) -> str:
    era: str = request.param
    return era


async def client_of(proxy: RunningProxy, era: str) -> AnyClient:
    return await proxy.client() if era == "handshake" else StatelessClient(proxy.http, proxy.url)


async def listed(client: AnyClient, method: str) -> list[str]:
    (items,) = (value for value in (await client.request(method)).result.values() if isinstance(value, list))
    return [item.get("uri") or item.get("uriTemplate") or item["name"] for item in items]


async def greet(call: Call) -> Any:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": call.params["name"]}}]}


def full(backend: ScriptedBackend) -> ScriptedBackend:
    """Something of every kind."""
    for uri in ("file:///docs/a", "file:///secret/key"):
        backend.resource(uri)
    for template in ("file:///docs/{name}", "log://{day}"):
        backend.template(template)
    for prompt in ("hello", "bye"):
        backend.prompt(prompt, greet)
    return backend


def selected(backend: ScriptedBackend, name: str = "one", **selection: Any) -> MountSpec:
    return http(name, full(backend).url, **selection)


UNKNOWN_TOOL = {"code": -32602, "message": "Unknown tool: one_bump"}


async def test_a_hidden_tool_is_neither_listed_nor_called(
    proxy: RunningProxy, backend: ScriptedBackend, era: str
) -> None:
    backend.tool("bump_all")
    await proxy.apply(selected(backend, tools=ToolSelection(include=("e*", "bump*"), exclude=("bum?",))))
    client = await client_of(proxy, era)
    assert await listed(client, "tools/list") == ["one_echo", "one_bump_all"]
    assert (await client.call("one_bump")).error == UNKNOWN_TOOL
    assert (await client.call("one_nope")).error == UNKNOWN_TOOL | {"message": "Unknown tool: one_nope"}
    assert (await client.call("one_bump_all")).text == "bump_all"
    assert backend.calls_of("bump") == []
    report = proxy.report("one").catalog
    assert (report.tools, report.names) == (2, ("one_echo", "one_bump_all"))
    assert (report.skipped, report.notices) == ((), ())


async def test_a_hidden_prompt_is_neither_listed_got_nor_completed(
    proxy: RunningProxy, backend: ScriptedBackend, era: str
) -> None:
    await proxy.apply(selected(backend, prompts=Selection(exclude=("b*",))))
    client = await client_of(proxy, era)
    assert await listed(client, "prompts/list") == ["one_hello"]
    assert (await client.request("prompts/get", {"name": "one_hello"})).result["messages"]
    unknown = {"code": -32602, "message": "Unknown prompt: one_bye"}
    assert (await client.request("prompts/get", {"name": "one_bye"})).error == unknown
    completion = {"ref": {"type": "ref/prompt", "name": "one_bye"}, "argument": {"name": "x", "value": ""}}
    assert (await client.request("completion/complete", completion)).error == unknown
    assert backend.seen("completion/complete") == []
    assert [seen.message["params"]["name"] for seen in backend.seen("prompts/get")] == ["hello"]


async def read(client: AnyClient, uri: str) -> Any:
    """The text that is read, or the code of the error."""
    answer = await client.request("resources/read", {"uri": uri})
    return answer.error["code"] if "error" in answer.response else answer.result["contents"][0]["text"]


async def test_an_excluded_resource_is_neither_listed_nor_read(
    proxy: RunningProxy, backend: ScriptedBackend, era: str
) -> None:
    await proxy.apply(selected(backend, resources=Selection(exclude=("file:///secret/*", "log:*"))))
    client = await client_of(proxy, era)
    assert await listed(client, "resources/list") == ["file:///one/docs/a"]
    assert await listed(client, "resources/templates/list") == ["file:///one/docs/{name}"]
    missing = await read(client, "nobody://knows/this")
    assert isinstance(missing, int)
    for uri in (
        "file:///one/secret/key",
        "file:///one/docs/../secret/key",
        "file:///one/docs/%2e%2e/secret/key",
        "FILE://one//secret/key",
        "mcp-connection:one:file:///secret/key",
        "file:one:///secret/key",
        "log://one/monday",
        "log://one/{day}",
    ):
        assert await read(client, uri) == missing, uri
    assert backend.seen("resources/read") == []
    assert await read(client, "file:///one/docs/a") == "contents of file:///docs/a"
    assert await read(client, "file:///one/docs/unlisted") == "contents of file:///docs/unlisted"
    assert await read(client, "other://one/x") == "contents of other://x"
    report = proxy.report("one").catalog
    assert (report.resources, report.resource_templates) == (1, 1)


async def test_with_include_only_what_is_included_can_be_read(
    proxy: RunningProxy, backend: ScriptedBackend, era: str
) -> None:
    await proxy.apply(selected(backend, resources=Selection(include=("file:///docs/{name}", "cfg://*"))))
    client = await client_of(proxy, era)
    assert await listed(client, "resources/templates/list") == ["file:///one/docs/{name}"]
    assert await listed(client, "resources/list") == ["file:///one/docs/a"], "the template leads to it"
    assert await read(client, "file:///one/docs/b") == "contents of file:///docs/b"
    assert await read(client, "cfg://one/x/y") == "contents of cfg://x/y"
    missing = await read(client, "nobody://knows/this")
    assert isinstance(missing, int)
    for uri in ("file:///one/docs/b/c", "file:///one/secret/key", "log://one/monday", "file:///one/docs/..%2Fsecret"):
        assert await read(client, uri) == missing, uri
    assert len(backend.seen("resources/read")) == 2


async def test_a_hidden_resource_cannot_be_subscribed_to(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(selected(backend, resources=Selection(exclude=("file:///secret/*",))))
    client = await proxy.client(listening=True)
    error = (await client.request("resources/subscribe", {"uri": "file:///one/secret/key"})).error
    assert error["code"] == -32002
    assert (await client.request("resources/subscribe", {"uri": "file:///one/docs/a"})).result == {}
    assert [seen.message["params"]["uri"] for seen in backend.seen("resources/subscribe")] == ["file:///docs/a"]
    stateless = StatelessClient(proxy.http, proxy.url)
    wanted = ["file:///one/secret/key", "file:///one/docs/a"]
    async with stateless.listening(resourceSubscriptions=wanted) as stream:
        await proxy.until(lambda: stream.messages)
        agreed = stream.messages[0]["params"]["notifications"]["resourceSubscriptions"]
    assert agreed == ["file:///one/docs/a"]


async def test_a_hidden_template_cannot_be_completed(proxy: RunningProxy, backend: ScriptedBackend, era: str) -> None:
    await proxy.apply(selected(backend, resources=Selection(exclude=("log:*",))))
    client = await client_of(proxy, era)

    def completion(template: str) -> dict[str, Any]:
        return {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": "x", "value": ""}}

    shown = await client.request("completion/complete", completion("file:///one/docs/{name}"))
    assert "file:///docs/{name}" in shown.result["completion"]["values"][0]
    assert (await client.request("completion/complete", completion("log://one/{day}"))).error["code"] == -32602
    assert len(backend.seen("completion/complete")) == 1


async def test_under_the_empty_prefix_a_hidden_resource_is_hidden_too(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    other.resource("doc://other")
    await proxy.apply(
        http("one", full(backend).url, prefix="", resources=Selection(exclude=("file:///secret/*",))),
        http("other", other.url, prefix=""),
    )
    client = await proxy.client()
    assert await read(client, "file:///docs/a") == "contents of file:///docs/a"
    assert await read(client, "file:///secret/key") == "contents of file:///secret/key"
    assert backend.seen("resources/read")[-1].message["params"]["uri"] == "file:///docs/a"
    assert other.seen("resources/read")[-1].message["params"]["uri"] == "file:///secret/key", "whose own affair it is"


async def test_under_the_empty_prefix_what_is_included_can_be_read_though_nothing_is_listed(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", full(backend).url, prefix="", resources=Selection(include=("cfg://*",))))
    client = await proxy.client()
    assert await client.names("resources/list") == []
    assert await read(client, "cfg://x") == "contents of cfg://x"
    assert await read(client, "file:///docs/a") == -32002


async def test_everything_hidden_is_an_empty_catalogue_and_ready(
    proxy: RunningProxy, backend: ScriptedBackend, era: str
) -> None:
    nothing = Selection(exclude=("*",))
    await proxy.apply(selected(backend, tools=ToolSelection(exclude=("*",)), resources=nothing, prompts=nothing))
    assert proxy.report("one").ready
    client = await client_of(proxy, era)
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert await listed(client, method) == []
    assert (await client.call("one_bump")).error == UNKNOWN_TOOL


async def test_patterns_and_names_that_match_nothing_are_notices(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(
        selected(
            backend,
            tools=ToolSelection(include=("echo", "gone_*"), exclude=("x",), rename={"bump": "b", "none": "n"}),
            resources=Selection(exclude=("log:*", "ftp:*")),
            prompts=Selection(include=("*",)),
        )
    )
    notices = [(note.kind, note.name, note.reason.partition(":")[0]) for note in proxy.report("one").catalog.notices]
    assert notices == [
        ("tool", "gone_*", "spec.tools.include"),
        ("tool", "x", "spec.tools.exclude"),
        ("resource", "ftp:*", "spec.resources.exclude"),
        ("tool", "bump", "spec.tools.rename"),
        ("tool", "none", "spec.tools.rename"),
    ]
    reasons = [note.reason for note in proxy.report("one").catalog.notices]
    assert "hidden by include or exclude" in reasons[3]
    assert "none that the backend has" in reasons[4]


async def test_a_change_of_the_selection_is_told_and_another_mount(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client(listening=True)
    assert (await client.call("one_bump")).text == "1"
    result = await proxy.apply(
        http("one", backend.url, fingerprint="2", tools=ToolSelection(exclude=("bump",), rename={"echo": "say"}))
    )
    assert len(result.replaced) == 1
    await client.hear("notifications/tools/list_changed")
    assert await client.names() == ["one_say"]
    assert (await client.call("one_bump")).error == UNKNOWN_TOOL


async def test_what_appears_later_is_selected_too(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, tools=ToolSelection(exclude=("late_hidden",))))
    await proxy.announced()
    client = await proxy.client(listening=True)
    await backend.until(lambda: any(session.listening for session in backend.live))
    backend.tool("late_hidden")
    backend.tool("late")
    backend.notify_all("notifications/tools/list_changed")
    await client.hear("notifications/tools/list_changed")
    assert await client.names() == ["one_echo", "one_bump", "one_late"]


async def test_a_change_of_what_is_hidden_is_not_told(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, tools=ToolSelection(exclude=("hidden*",))))
    await proxy.announced()
    client = await proxy.client(listening=True)
    await backend.until(lambda: any(session.listening for session in backend.live))
    before = proxy.report("one").catalog
    for number in range(3):
        listed_before = len(backend.seen("tools/list"))
        backend.tool(f"hidden{number}")
        backend.notify_all("notifications/tools/list_changed")
        await backend.until(lambda before=listed_before: len(backend.seen("tools/list")) > before)  # type: ignore[misc]
    await proxy.until(lambda: proxy.report("one").catalog.notices == ())
    await proxy.announced()
    await client.notify("notifications/initialized")
    assert client.heard == []
    assert proxy.report("one").catalog.hash == before.hash


async def test_tools_have_the_names_they_are_given(proxy: RunningProxy, backend: ScriptedBackend, era: str) -> None:
    async def who(call: Call) -> Any:
        return text(call.params["name"])

    backend.tool("a", who, title="A", annotations={"readOnlyHint": True})
    backend.tool("b", who)
    await proxy.apply(http("one", backend.url, tools=ToolSelection(include=("?",), rename={"a": "b", "b": "a"})))
    client = await client_of(proxy, era)
    tools = (await client.request("tools/list")).result["tools"]
    assert [tool["name"] for tool in tools] == ["one_b", "one_a"]
    assert tools[0]["title"] == "A"
    assert (await client.call("one_b")).text == "a"
    assert (await client.call("one_a")).text == "b"


async def test_the_old_name_of_a_tool_is_unknown(proxy: RunningProxy, backend: ScriptedBackend, era: str) -> None:
    await proxy.apply(http("one", backend.url, prefix="", tools=ToolSelection(rename={"bump": "raise"})))
    client = await client_of(proxy, era)
    assert await listed(client, "tools/list") == ["echo", "raise"]
    assert (await client.call("bump")).error == {"code": -32602, "message": "Unknown tool: bump"}
    assert (await client.call("raise")).text == "1"


async def test_of_two_tools_of_one_name_the_one_that_always_had_it_keeps_it(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    client = await proxy.client()
    for order in (("a", "b"), ("b", "a")):
        backend.items["tools"].clear()
        for name in order:
            backend.tool(name)
        await proxy.apply(http("one", backend.url, fingerprint=order[0], tools=ToolSelection(rename={"a": "b"})))
        assert await client.names() == ["one_b"]
        assert (await client.call("one_b")).text == "b"
        assert (await client.call("one_a")).error["message"] == "Unknown tool: one_a"
        (note,) = proxy.report("one").catalog.skipped
        assert (note.kind, note.name) == ("tool", "a")
        assert "'b' is called that already" in note.reason

    hidden = ToolSelection(rename={"a": "b"}, exclude=("b",))
    await proxy.apply(http("one", backend.url, fingerprint="hidden", tools=hidden))
    assert (await client.call("one_b")).text == "a", "a tool that is hidden is in nobody's way"
