"""The aggregate of several catalogues: one owner for each public name, the oldest first, everything findable."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_connections.proxy.catalogue.catalogue import Aggregate, PublicCatalogue, publish
from mcp_connections.proxy.catalogue.discovery import BackendCatalogue, Item, Kind
from mcp_connections.proxy.catalogue.selecting import select
from tests.proxy.desired import http

EVERYTHING = http("one", "http://127.0.0.1:1/mcp")
"""A connection that hides nothing."""
MEMBERS: dict[Kind, str] = {"tool": "name", "resource": "uri", "resourceTemplate": "uriTemplate", "prompt": "name"}
PREFIXES = st.sampled_from(["", "a", "a_b", "b", "a.b", "x-1"])
NAMES = st.one_of(st.sampled_from(["b_c", "c", "_", "", "b", "a_b_c", "n" * 130, "n" * 129 + "m"]), st.text(max_size=6))
URIS = st.one_of(
    st.sampled_from(["doc://a", "urn:x:y", "https://a/b", "plain", "doc://b/c", "mcp-connection:a:doc://b", "a:b:c"]),
    st.text(max_size=8),
)


def backend(tools: list[str], resources: list[str], templates: list[str], prompts: list[str]) -> BackendCatalogue:
    """A catalogue as discovery makes it: each name once."""
    named: dict[Kind, list[str]] = {
        "tool": tools,
        "resource": resources,
        "resourceTemplate": templates,
        "prompt": prompts,
    }
    return BackendCatalogue(
        items={
            kind: tuple(
                Item(name, {"x": Raw(b"1.0"), MEMBERS[kind]: Raw(json.dumps(name).encode())})
                for name in dict.fromkeys(names)
            )
            for kind, names in named.items()
        }
    )


sources = st.lists(
    st.tuples(
        PREFIXES,
        st.builds(
            backend,
            tools=st.lists(NAMES, max_size=4),
            resources=st.lists(URIS, max_size=4),
            templates=st.lists(URIS, max_size=2),
            prompts=st.lists(NAMES, max_size=2),
        ),
    ),
    max_size=4,
)


def aggregate(
    backends: list[tuple[str, BackendCatalogue]], separator: str
) -> tuple[Aggregate[int], list[PublicCatalogue]]:
    """The aggregate, and what each backend contributes; owners are numbers, the oldest 0."""
    public = [publish(select(catalogue, EVERYTHING, None), prefix, separator) for prefix, catalogue in backends]
    entries = [(number, prefix, public[number]) for number, (prefix, _) in enumerate(backends)]
    return Aggregate(entries), public


def listed(whole: Aggregate[int], kind: Kind) -> list[dict[str, Any]]:
    (items,) = json.loads(whole.results[kind]).values()
    assert isinstance(items, list)
    return items


@settings(max_examples=60, deadline=None)
@given(backends=sources, separator=st.sampled_from(["_", ".", ":"]))
def test_every_listed_name_has_one_owner_and_every_other_one_is_reported(
    backends: list[tuple[str, BackendCatalogue]], separator: str
) -> None:
    whole, public = aggregate(backends, separator)
    for kind, member in MEMBERS.items():
        names = [item[member] for item in listed(whole, kind)]
        assert len(names) == len(set(names)), "a public name is listed twice"
        assert set(names) == set(whole.targets[kind])
        claims = [(number, item) for number, each in enumerate(public) for item in each.items.get(kind, ())]
        reported = [note for note in whole.clashes if note[1].kind == kind]
        assert len(claims) == len(names) + len(reported), "an item is neither listed nor reported"
        for name in names:
            target = whole.targets[kind][name]
            first = next((number, item) for number, item in claims if item.identity == name)
            assert (target.owner, target.own) == (first[0], first[1].own), "not the oldest one owns the name"
        for loser, note, holder in reported:
            assert holder == whole.targets[kind][note.name].owner
            assert holder <= loser


@settings(max_examples=60, deadline=None)
@given(backends=sources)
def test_every_listed_resource_leads_back_to_its_backend(backends: list[tuple[str, BackendCatalogue]]) -> None:
    whole, _ = aggregate(backends, "_")
    for uri, target in whole.targets["resource"].items():
        assert whole.locate(uri) == target


@settings(max_examples=60, deadline=None)
@given(backends=sources, separator=st.sampled_from(["_", "."]))
def test_names_fit_the_protocol_and_bodies_are_otherwise_untouched(
    backends: list[tuple[str, BackendCatalogue]], separator: str
) -> None:
    whole, _ = aggregate(backends, separator)
    for item in listed(whole, "tool"):
        assert len(item["name"]) <= 128
    for result in whole.results.values():
        assert result.count(b'"x":1.0') == len(next(iter(json.loads(result).values())))


@settings(max_examples=40, deadline=None)
@given(before=sources, after=sources)
def test_changes_are_told_for_exactly_the_lists_that_differ(
    before: list[tuple[str, BackendCatalogue]], after: list[tuple[str, BackendCatalogue]]
) -> None:
    old, new = aggregate(before, "_")[0], aggregate(after, "_")[0]
    expected = set()
    kinds: dict[Kind, str] = {
        "tool": "tools",
        "resource": "resources",
        "resourceTemplate": "resources",
        "prompt": "prompts",
    }
    for kind, told in kinds.items():
        if listed(old, kind) != listed(new, kind):
            expected.add(told)
    assert new.changes_from(old) == expected
    assert new.changes_from(new) == set()


def test_an_alias_does_not_take_the_name_of_another_tool() -> None:
    """Two names that are cut to the same text stay apart, and a tool whose own name is that alias is reported."""
    long = "n" * 140
    (alias,) = aggregate([("p", backend([long], [], [], []))], "_")[0].targets["tool"]
    whole, _ = aggregate([("p", backend([long, alias.removeprefix("p_")], [], [], []))], "_")
    assert list(whole.targets["tool"]) == [alias]
    ((loser, note, holder),) = whole.clashes
    assert (loser, note.name, holder) == (0, alias, 0)
