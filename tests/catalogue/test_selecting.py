"""Selection, hash, new names and the words about a withheld catalogue, without a backend."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_connections.mounts.patterns import MAX_TEXT
from mcp_connections.mounts.spec import MountSpec, Selection, ToolSelection
from mcp_connections.proxy.catalogue.catalogue import Aggregate, publish
from mcp_connections.proxy.catalogue.discovery import BackendCatalogue, Item, Kind
from mcp_connections.proxy.catalogue.pinning import FEW, MAX_NAME, Pin
from mcp_connections.proxy.catalogue.selecting import SelectedCatalogue, select
from tests.proxy.desired import http

IDENTITY: dict[Kind, str] = {"tool": "name", "resource": "uri", "resourceTemplate": "uriTemplate", "prompt": "name"}
NAMES = st.lists(st.text("abc", min_size=1, max_size=2), unique=True, max_size=5)
RENAME = st.dictionaries(st.text("abc", min_size=1, max_size=2), st.text("abc", min_size=1, max_size=2), max_size=4)


def spec(**selection: Any) -> MountSpec:
    return http("one", "http://127.0.0.1:1/mcp", **selection)


def has(kind: Kind, *names: str, **members: Any) -> BackendCatalogue:
    """A backend with items of one kind."""
    items = tuple(
        Item(name, {IDENTITY[kind]: Raw(json.dumps(name).encode()), "x": Raw(json.dumps(members).encode())})
        for name in names
    )
    return BackendCatalogue(items={kind: items})


def tools(*names: str, instructions: str | None = None, **members: Any) -> SelectedCatalogue:
    return select(has("tool", *names, **members), spec(), instructions)


@given(names=NAMES, order=st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_hash_depends_on_what_is_there_and_not_on_its_order(names: list[str], order: random.Random) -> None:
    turned = list(names)
    order.shuffle(turned)
    assert tools(*names).hash == tools(*turned).hash
    assert tools(*names).is_like(tools(*turned))
    assert tools(*names).hash != tools(*names, "new").hash
    assert not names or tools(*names).hash != tools(*names, y=1).hash


def test_an_item_of_another_kind_is_another_item() -> None:
    assert len({select(has(kind, "a"), spec(), None).hash for kind in IDENTITY}) == len(IDENTITY)


def test_only_what_is_shown_is_hashed() -> None:
    hiding = spec(tools=ToolSelection(exclude=("b",)))
    assert select(has("tool", "a", "b"), hiding, None).hash == tools("a").hash
    assert tools("a", instructions="").hash == tools("a").hash
    assert tools("a", instructions="x").hash != tools("a").hash


@given(names=NAMES, rename=RENAME, order=st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_every_tool_is_served_under_one_name_or_reported(
    names: list[str], rename: dict[str, str], order: random.Random
) -> None:
    def published(listed: list[str]) -> tuple[dict[str, str], set[str]]:
        public = publish(tools(*listed), "p", "_", rename)
        assert not Aggregate([(0, "p", public)]).clashes
        return {item.own: item.identity for item in public.items["tool"]}, {note.name for note in public.skipped}

    served, skipped = published(names)
    assert served.keys() | skipped == set(names)
    assert not served.keys() & skipped
    assert all(served[own] == f"p_{rename.get(own, own)}" for own in served)
    assert not skipped - rename.keys(), "a name of its own is taken from nobody"
    turned = list(names)
    order.shuffle(turned)
    assert published(turned) == (served, skipped)


def test_names_too_long_for_patterns_are_hidden_and_reported() -> None:
    long = "x" * (MAX_TEXT + 1)
    selected = select(has("tool", "a", long), spec(tools=ToolSelection(include=("*",))), None)
    assert [item.identity for item in selected.items["tool"]] == ["a"]
    assert [(note.kind, note.name) for note in selected.skipped] == [("tool", long)]
    assert tools(long).skipped == ()


def test_nothing_is_checked_when_read_where_nothing_is_hidden() -> None:
    assert select(has("resource", "a"), spec(tools=ToolSelection(exclude=("x",))), None).may_read is None
    may_read = select(has("resource", "a"), spec(resources=Selection(exclude=("x",))), None).may_read
    assert may_read is not None
    assert may_read("a")
    assert not may_read("x")


def objection(before: SelectedCatalogue | None, seen: SelectedCatalogue) -> str:
    pin = Pin("approved" if before is None else before.hash)
    if before is not None:
        assert pin.served(before) is before
        assert pin.objection(before) is None
    assert pin.served(seen) is before
    text = pin.objection(seen)
    assert text is not None
    return text


def test_a_message_names_the_first_few() -> None:
    many = [f"t{number}" for number in range(FEW + 3)]
    text = objection(tools("a"), tools("a", *many))
    assert "Added: tool 't0', tool 't1', tool 't2', tool 't3', tool 't4', and 3 more." in text
    assert "Removed" not in text
    assert "Changed" not in text
    assert f"What the backend has now: {', '.join(f'tool {name!r}' for name in many[:FEW])}, and 3 more." in objection(
        None, tools(*many)
    )
    assert "What the backend has now: nothing." in objection(None, tools())


def test_a_message_holds_no_more_of_a_name_than_it_takes_to_know_it() -> None:
    text = objection(tools(), tools("x" * 5000 + "\n\x1b[31m"))
    assert f"tool '{'x' * (MAX_NAME - 1)}…'" in text
    assert "\\n\\x1b" in objection(tools(), tools("a\n\x1b[31m"))


def test_without_a_pin_everything_is_served() -> None:
    pin = Pin(None)
    for seen in (tools("a"), tools("b")):
        assert pin.served(seen) is seen
        assert pin.objection(seen) is None


def test_what_was_approved_stays_the_same_object_while_clients_see_the_same() -> None:
    """A new object is published anew, and a new order of the list would be announced."""
    pin = Pin(tools("a", "b").hash)
    first = tools("a", "b")
    assert pin.served(first) is first
    assert pin.served(tools("c")) is first
    assert pin.served(tools("b", "a")) is first
