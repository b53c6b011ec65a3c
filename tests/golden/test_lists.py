"""Every list, member by member, for every pairing of eras."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from uritemplate import expand

from tests.golden.catalogues import CATALOGUES, Catalogue
from tests.golden.eras import LIST_ADDITIONS
from tests.golden.json_text import Style, loads
from tests.golden.mapping import needs_alias, public_name, public_uri
from tests.golden.relayed import ERAS, IDENTITY, PAIRS, PREFIXES, Golden, Pair
from tests.golden.results import Answered
from tests.golden.server import MEMBERS, Era

EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
VARIABLES: dict[str, Any] = {
    "path": "a/b",
    "table": "t é",
    "row": ["1", "2"],
    "scheme": "db",
    "host": "h/x",
    "all": "urn:x:y",
}


def as_listed(pair: Pair, member: str, own: dict[str, Any], served: dict[str, Any]) -> dict[str, Any]:
    """What the item ``own`` of a backend has to look like to clients. ``served`` is asked for an alias only."""
    key = IDENTITY[member]
    if key != "name":
        return {**own, key: public_uri(pair.prefix, own[key])}
    full = public_name(pair.prefix, own["name"])
    expected = {**own, "name": served["name"] if needs_alias(full) else full}
    if "ui" in own.get("_meta", {}):
        view = own["_meta"]["ui"]
        expected["_meta"] = {"ui": {**view, "resourceUri": public_uri(pair.prefix, view["resourceUri"])}}
    return expected


async def compare_list(golden: Golden, client: Era, method: str, member: str) -> None:
    extra, served = await golden.listed(client, method, member)
    assert set(extra) == LIST_ADDITIONS[client]
    for backend in ERAS:
        pair = Pair(client, backend)
        own = await golden.listed_directly(backend, method, member)
        count = len(own)
        mine, served = served[:count], served[count:]
        assert mine == [as_listed(pair, member, *both) for both in zip(own, mine, strict=True)]
        names = [item[IDENTITY[member]] for item in mine]
        assert len(set(names)) == count
        assert all(len(name) <= 128 and not any(c.isspace() for c in name) for name in names if member == "tools")
    assert served == []


async def compare_reach(golden: Golden, pair: Pair, catalogue: Catalogue) -> None:
    """Each public name and URI leads to its own item, and to the right backend."""
    server = golden.servers[pair.backend]
    for method, list_method, member in (
        ("tools/call", "tools/list", "tools"),
        ("prompts/get", "prompts/list", "prompts"),
        ("resources/read", "resources/list", "resources"),
    ):
        key = IDENTITY[member]
        own = [item[key] for item in catalogue.items[member]]
        _, served = await golden.listed(pair.client, list_method, member)
        start = len(own) * list(PREFIXES).index(pair.backend)
        for name, item in zip(own, served[start : start + len(own)], strict=True):
            server.requests.clear()
            golden.answer(method, name, Answered("result", {"x-own": name}, []))
            answer = await golden.proxied(pair.client, method, {key: item[key]})
            assert loads(answer.raw())["x-own"] == name
            assert [loads(bytes(params[key])) for params in server.requests] == [name]


async def compare_expansions(golden: Golden, pair: Pair, catalogue: Catalogue) -> None:
    """What a client makes of a public template, the backend reads as what it would have made of its own."""
    server = golden.servers[pair.backend]
    for template in (item["uriTemplate"] for item in catalogue.items["resourceTemplates"]):
        server.requests.clear()
        uri = expand(template, VARIABLES)
        await golden.proxied(
            pair.client, "resources/read", {"uri": expand(public_uri(pair.prefix, template), VARIABLES)}
        )
        assert [loads(bytes(params["uri"])) for params in server.requests] == [uri]


@EXAMPLES
@given(catalogue=CATALOGUES)
async def test_lists_are_the_backends_own_but_for_names_and_uris(golden: Golden, catalogue: Catalogue) -> None:
    await golden.offer(catalogue)
    for client in ERAS:
        for method, member in MEMBERS.items():
            await compare_list(golden, client, method, member)
    for pair in PAIRS:
        await compare_reach(golden, pair, catalogue)
        await compare_expansions(golden, pair, catalogue)
    assert all(golden.proxy.report(prefix).catalog.skipped == () for prefix in PREFIXES.values())


MALFORMED: dict[str, list[Any]] = {
    "tools": [7, None, "x", [], {}, {"name": 1, "inputSchema": {}}, {"name": "a"}, {"name": "b", "inputSchema": []}],
    "resources": [True, {}, {"uri": "x:y"}, {"uri": None, "name": "n"}, {"name": "n"}],
    "resourceTemplates": [0, {"name": "n"}, {"uriTemplate": {}, "name": "n"}, {"uriTemplate": "a:{b}"}],
    "prompts": ["", {}, {"name": []}, {"title": "no name"}],
}


@EXAMPLES
@given(catalogue=CATALOGUES)
async def test_malformed_items_hide_no_neighbour(golden: Golden, catalogue: Catalogue) -> None:
    mixed = {
        member: [each for pair in zip(bad * 4, [*good, *good], strict=False) for each in pair] + bad
        for member, good in catalogue.items.items()
        for bad in [MALFORMED[member]]
    }
    await golden.offer(Catalogue(mixed, Style(), catalogue.page_size))
    for method, member in MEMBERS.items():
        good = catalogue.items[member]
        for client in ERAS:
            _, served = await golden.listed(client, method, member)
            own = [(Pair(client, backend), item) for backend in ERAS for item in good]
            assert served == [
                as_listed(pair, member, item, mine) for (pair, item), mine in zip(own, served, strict=True)
            ]
    for prefix in PREFIXES.values():
        skipped = golden.proxy.report(prefix).catalog.skipped
        left_out = sum(len(mixed[member]) - len(good) for member, good in catalogue.items.items())
        assert len(skipped) == left_out
        assert all(note.reason for note in skipped)
