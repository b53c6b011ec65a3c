"""Public names and URIs: one owner each, and whatever a client sees can be called or read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
import uritemplate

from tests.backends.calls import Call
from tests.backends.scripted import ScriptedBackend, text
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

URIS = (
    "file:///etc/hosts",
    "file:/relative/to/root",
    "doc://host/path/to?q=1&r=a%2Fb#fragment",
    "doc://",
    "urn:isbn:0451450523",
    "mailto:someone@example.org",
    "data:text/plain;base64,SGk=",
    "https://example.org/a?b=c#d",
    "HTTP://example.org/",
    "ui://widget/view.html",
    "postgres://db:5432/table",
    "mcp-connection:other:urn:x",
    "a-name-only",
    "folder/file.txt",
    "x+y.z-1://odd/scheme",
    "ünïcode://ключ/値",
)


async def read(client: Client, uri: str) -> Any:
    """The first content of a resource."""
    (content,) = (await client.request("resources/read", {"uri": uri})).result["contents"]
    return content


# names


async def test_names_too_long_are_served_under_aliases_that_reach_their_own_tool(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    stem = "n" * 126
    for name in (f"{stem}a", f"{stem}b", "m" * 80, "short"):
        backend.tool(name)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    names = [name for name in await client.names() if name not in ("one_echo", "one_bump")]
    assert len(set(names)) == 4
    assert all(len(name) <= 128 for name in names)
    assert [(await client.call(name)).text for name in names] == [f"{stem}a", f"{stem}b", "m" * 80, "short"]
    notices = {note.name: note.reason for note in proxy.report("one").catalog.notices}
    assert set(notices) == set(names[:3])
    assert "longer than 128 characters" in notices[names[0]]
    assert "64" in notices[names[2]]

    await proxy.apply()
    await proxy.apply(http("one", backend.url, fingerprint="2"))
    assert [name for name in await client.names() if len(name) > 100] == names[:2], "an alias is always the same"


async def test_of_two_equal_public_names_the_older_connection_keeps_it(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    younger = await make_backend()
    backend.tool("ft_search", _says("older"))
    younger.tool("search", _says("younger"))
    backend.prompt("ft_greet", _prompt("older"))
    younger.prompt("greet", _prompt("younger"))
    older_spec = http("older", backend.url, prefix="redis")
    younger_spec = http("younger", younger.url, prefix="redis_ft")
    await proxy.apply(older_spec, younger_spec)
    client = await proxy.client()
    names = await client.names()
    assert names.count("redis_ft_search") == 1
    assert (await client.call("redis_ft_search")).text == "older"
    assert (await client.call("redis_ft_bump")).text == "1", "the other tools of the younger one are served"
    greeting = (await client.request("prompts/get", {"name": "redis_ft_greet"})).result
    assert greeting["messages"][0]["content"]["text"] == "older"
    (tool, prompt) = proxy.report("younger").catalog.skipped
    assert (tool.kind, tool.name, prompt.kind, prompt.name) == ("tool", "redis_ft_search", "prompt", "redis_ft_greet")
    assert "team/older" in tool.reason
    assert proxy.report("younger").catalog.tools == 2
    assert "redis_ft_search" not in proxy.report("younger").catalog.names
    assert proxy.report("older").catalog.skipped == ()

    await proxy.apply(younger_spec)
    assert (await client.call("redis_ft_search")).text == "younger", "the name is free again"
    assert proxy.report("younger").catalog.skipped == ()


async def test_without_a_prefix_names_and_uris_stay_as_they_are(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    for each in (backend, other):
        each.resource("doc://a")
        each.tool("link", _links("doc://a"))
    await proxy.apply(http("bare", backend.url, prefix=""), http("other", other.url))
    client = await proxy.client()
    assert await client.names() == ["echo", "bump", "link", "other_echo", "other_bump", "other_link"]
    assert await client.names("resources/list") == ["doc://a", "doc://other/a"]
    assert (await read(client, "doc://a"))["uri"] == "doc://a"
    assert (await read(client, "doc://unlisted"))["text"] == "contents of doc://unlisted"
    assert (await client.call("link")).result["content"][0]["uri"] == "doc://a"
    assert [seen.message["params"]["uri"] for seen in other.seen("resources/read")] == []


async def test_names_in_any_script_are_called_by_the_name_they_are_listed_under(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("検索", _says("found"), description="🔍 поиск\u202e")
    backend.tool("with space", _says("spaced"))
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    tools = {tool["name"]: tool for tool in (await client.request("tools/list")).result["tools"]}
    assert tools["one_検索"]["description"] == "🔍 поиск\u202e"
    assert (await client.call("one_検索")).text == "found"
    (alias,) = [name for name in tools if name.startswith("one_with")]
    assert " " not in alias
    assert (await client.call(alias)).text == "spaced"


async def test_items_keep_every_member_but_name_and_uri(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.add_item(
        "tools",
        b'{"name":"full","title":"T","description":"d","inputSchema":{"type":"object","$defs":{"n":{"maximum":1e400}},'
        b'"properties":{"big":{"const":12345678901234567890123}}},"outputSchema":{"type":"object"},"icons":[{"src":"x"}],'
        b'"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"optional"},"_meta":{"v":1.50},"future":[ ]}',
    )
    backend.add_item(
        "resources", b'{"uri":"doc://a","name":"a","size":9007199254740993,"annotations":{"priority":1.0}}'
    )
    backend.add_item("prompts", b'{"name":"p","arguments":[{"name":"x","title":"X","required":true}]}')
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert backend.items["tools"][-1].replace(b'"full"', b'"one_full"') in (await client.request("tools/list")).raw()
    (resource,) = backend.items["resources"]
    listed = (await client.request("resources/list")).raw()
    assert listed == b'{"resources":[%s]}' % resource.replace(b"doc://a", b"doc://one/a")
    (prompt,) = backend.items["prompts"]
    assert (await client.request("prompts/list")).raw() == b'{"prompts":[%s]}' % prompt.replace(b'"p"', b'"one_p"')


# URIs


async def test_every_uri_of_two_backends_is_listed_and_read_from_its_own(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    for each, label in ((backend, "one"), (other, "two")):
        each.handlers["resources/read"] = _reads(label)
        for uri in URIS:
            each.resource(uri)
    await proxy.apply(http("one", backend.url), http("two", other.url))
    client = await proxy.client()
    listed = await client.names("resources/list")
    assert len(set(listed)) == 2 * len(URIS)
    for label, public in (("one", listed[: len(URIS)]), ("two", listed[len(URIS) :])):
        for uri, original in zip(public, URIS, strict=True):
            assert await read(client, uri) == {"uri": uri, "text": f"{label} has {original}"}
    for each in (backend, other):
        assert [seen.message["params"]["uri"] for seen in each.seen("resources/read")] == list(URIS)


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("doc://{id}", {"id": "7"}),
        ("data://{id}{?format,lang}", {"id": "7", "format": "xml"}),
        ("file:///{+path}", {"path": "a/b/c"}),
        ("urn:{kind}:{id}", {"kind": "isbn", "id": "1"}),
        ("{scheme}://x/{id}", {"scheme": "doc", "id": "1"}),
        ("https://example.org/{id}#part", {"id": "ü"}),
        ("x:{+path}", {"path": "//host/y"}),
    ],
)
async def test_an_expanded_template_is_read_from_its_backend(
    proxy: RunningProxy, backend: ScriptedBackend, template: str, values: dict[str, Any]
) -> None:
    backend.template(template)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    (listed,) = (await client.request("resources/templates/list")).result["resourceTemplates"]
    expanded = uritemplate.expand(listed["uriTemplate"], values)
    content = await read(client, expanded)
    assert content["text"] == f"contents of {uritemplate.expand(template, values)}"


async def test_links_and_embedded_resources_in_results_can_be_read(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("link", _links("doc://a", "https://x/y"))
    backend.prompt("linked", _linked_prompt)
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    first, second, embedded, plain = (await client.call("one_link")).result["content"]
    assert first == {"type": "resource_link", "uri": "doc://one/a", "name": "n", "size": 3}
    for block in (first, second, embedded["resource"]):
        assert (await read(client, block["uri"]))["uri"] == block["uri"]
    assert plain == {"type": "text", "text": '{"uri":"doc://a"}', "uri": "doc://not-a-member-of-text"}

    messages = (await client.request("prompts/get", {"name": "one_linked"})).result["messages"]
    assert messages[0]["content"]["resource"]["uri"] == "doc://one/in-prompt"
    assert [block["uri"] for block in messages[1]["content"]] == ["doc://one/a", "doc://one/b"]
    assert messages[2]["content"] == {"type": "text", "text": "no uri"}


async def test_several_contents_keep_their_own_uris(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def directory(call: Call) -> Any:
        return (
            b'{"contents":[{"uri":"doc://all/1","text":"a","mimeType":"text/x"},{"uri":"doc://all/2","blob":"AAE=",'
            b'"_meta":{"n":1.0}},{"uri":"doc://all/3","text":""}],"_meta":{"k":1e2}}'
        )

    backend.handlers["resources/read"] = directory
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    result = (await client.request("resources/read", {"uri": "doc://one/all"})).raw()
    assert b'"_meta":{"n":1.0}' in result
    assert b'"_meta":{"k":1e2}' in result
    contents = json.loads(result)["contents"]
    assert [content["uri"] for content in contents] == ["doc://one/all/1", "doc://one/all/2", "doc://one/all/3"]
    assert contents[1]["blob"] == "AAE="
    assert "mimeType" not in contents[2]


async def test_an_empty_read_is_a_valid_one(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def nothing(call: Call) -> Any:
        return {"contents": []}

    backend.handlers["resources/read"] = nothing
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    assert (await client.request("resources/read", {"uri": "doc://one/a"})).result == {"contents": []}


async def test_the_view_of_a_tool_can_be_read(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.tool(
        "app", _meta={"ui": {"resourceUri": "ui://app/view", "csp": 1.0}, "openai/outputTemplate": "ui://app/v"}
    )
    backend.resource("ui://app/view")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    meta = (await client.request("tools/list")).result["tools"][-1]["_meta"]
    assert meta == {"ui": {"resourceUri": "ui://one/app/view", "csp": 1.0}, "openai/outputTemplate": "ui://one/app/v"}
    assert (await read(client, meta["ui"]["resourceUri"]))["text"] == "contents of ui://app/view"


async def test_a_resource_of_nobody_is_not_found(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    for uri in ("doc://nobody/a", "doc:a", "no uri at all"):
        error = (await client.request("resources/read", {"uri": uri})).error
        assert (error["code"], error["data"]) == (-32002, {"uri": uri})
    assert backend.seen("resources/read") == []


async def test_completions_are_asked_of_the_owner_under_its_own_names(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    del other.capabilities["completions"]
    for each in (backend, other):
        each.prompt("greet", _prompt("hello"))
        each.template("doc://{id}")
    await proxy.apply(http("one", backend.url), http("other", other.url))
    client = await proxy.client()
    argument = {"name": "id", "value": "a"}

    async def complete(ref: dict[str, str]) -> Any:
        answer = await client.request("completion/complete", {"ref": ref, "argument": argument, "context": {}})
        return answer.result["completion"]["values"]

    prompt = await complete({"type": "ref/prompt", "name": "one_greet"})
    assert json.loads(prompt[0]) == {"type": "ref/prompt", "name": "greet"}
    template = await complete({"type": "ref/resource", "uri": "doc://one/{id}"})
    assert json.loads(template[0]) == {"type": "ref/resource", "uri": "doc://{id}"}
    assert await complete({"type": "ref/prompt", "name": "other_greet"}) == []
    assert [seen.message["params"]["argument"] for seen in backend.seen("completion/complete")] == [argument] * 2
    assert other.seen("completion/complete") == []
    unknown = await client.request("completion/complete", {"ref": {"type": "ref/odd"}, "argument": argument})
    assert unknown.error["code"] == -32602


def _says(content: str) -> Any:
    async def handler(call: Call) -> Any:
        return text(content)

    return handler


def _prompt(content: str) -> Any:
    async def handler(call: Call) -> Any:
        return {"messages": [{"role": "user", "content": {"type": "text", "text": content}}]}

    return handler


def _reads(label: str) -> Any:
    async def handler(call: Call) -> Any:
        uri = call.params["uri"]
        return {"contents": [{"uri": uri, "text": f"{label} has {uri}"}]}

    return handler


def _links(*uris: str) -> Any:
    async def handler(call: Call) -> Any:
        links = [{"type": "resource_link", "uri": uri, "name": "n", "size": 3} for uri in uris]
        embedded = {"type": "resource", "resource": {"uri": "doc://embedded", "text": "e"}}
        plain = {"type": "text", "text": '{"uri":"doc://a"}', "uri": "doc://not-a-member-of-text"}
        return {"content": [*links, embedded, plain]}

    return handler


async def _linked_prompt(call: Call) -> Any:
    link: dict[str, Any] = {"type": "resource_link", "name": "n"}
    return {
        "messages": [
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "doc://in-prompt", "text": ""}}},
            {"role": "assistant", "content": [link | {"uri": "doc://a"}, link | {"uri": "doc://b"}]},
            {"role": "user", "content": {"type": "text", "text": "no uri"}},
        ]
    }
