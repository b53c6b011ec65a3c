"""What is shown and what may be read, decided without any backend."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.mounts import selection as module
from mcp_connections.mounts.patterns import MAX_TEXT
from mcp_connections.mounts.selection import ResourceSelector, Selector, UnusedPattern
from mcp_connections.mounts.spec import Selection


def names(*all_of_them: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    selector = Selector(Selection(include=include, exclude=exclude))
    return [name for name in all_of_them if selector.shows(name)]


def resources(*templates: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> ResourceSelector:
    return ResourceSelector(Selection(include=include, exclude=exclude), templates)


def test_without_patterns_everything_is_shown() -> None:
    assert names("a", "", "x" * (MAX_TEXT + 1)) == ["a", "", "x" * (MAX_TEXT + 1)]
    assert resources("t{x}").shows("x" * (MAX_TEXT + 1))
    assert resources("t{x}").shown_templates == ["t{x}"]


def test_include_limits_and_exclude_wins() -> None:
    assert names("read_a", "read_all", "write", include=("read_*",)) == ["read_a", "read_all"]
    assert names("read_a", "read_all", "write", exclude=("*_all",)) == ["read_a", "write"]
    assert names("read_a", "read_all", "write", include=("read_*", "write"), exclude=("*_all",)) == ["read_a", "write"]
    assert names("a", include=("a",), exclude=("a",)) == []
    assert names("x" * (MAX_TEXT + 1), include=("*",)) == names("x" * (MAX_TEXT + 1), exclude=("y",)) == []


@given(
    items=st.lists(st.text("ab", max_size=3), unique=True),
    include=st.lists(st.text("ab*", min_size=1, max_size=2), max_size=2),
    exclude=st.lists(st.text("ab?", min_size=1, max_size=2), max_size=2),
)
@settings(max_examples=100, deadline=None)
def test_resources_without_tricks_are_shown_as_tools_are(
    items: list[str], include: list[str], exclude: list[str]
) -> None:
    uris = [f"doc://{item}" for item in items]
    selection = Selection(
        include=tuple(map("doc://{}".format, include)), exclude=tuple(map("doc://{}".format, exclude))
    )
    of_names, of_resources = Selector(selection), ResourceSelector(selection, ())
    assert [of_resources.shows(uri) for uri in uris] == [of_names.shows(uri) for uri in uris]
    assert [of_resources.may_read(uri) for uri in uris] == [of_names.shows(uri) for uri in uris]


def test_unused_patterns_in_the_order_of_the_manifest() -> None:
    selector = Selector(Selection(include=("z", "a*", "y"), exclude=("*b", "q")))
    assert selector.unused(["a", "ab"]) == [
        UnusedPattern("include", "z"),
        UnusedPattern("include", "y"),
        UnusedPattern("exclude", "q"),
    ]


SECRET = "file:///secret/key"
DISGUISES = [
    SECRET,
    "FILE:///secret/key",
    "file:///secret/../secret/key",
    "file:///pub/../secret/key",
    "file:///pub/%2e%2e/secret/key",
    "file:///pub/%2E%2E%2Fsecret/key",
    "file:///pub/.%2e/./secret//key",
    "file:////secret/key",
    "file:///./secret/key",
    "file:///%73ecret/key",
    "file:///secret%2Fkey",
    "file:///secret/key#top",
    "file:///pub#/../../secret/key",
    "file:///pub?/../../secret/key",
    "file:///pub%3F/../../secret/key",
    "file:///pub/../../../../secret/key",
]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_spelling_gets_around_exclude(disguise: str) -> None:
    hiding = resources("file:///{+path}", exclude=("file:///secret/*",))
    assert not hiding.may_read(disguise)
    assert not hiding.shows(disguise)
    assert not resources(exclude=("file:///secret/key",)).may_read(disguise)
    assert hiding.may_read("file:///pub/a")


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_spelling_gets_into_include(disguise: str) -> None:
    assert not resources(include=("file:///pub*",)).may_read(disguise)
    assert not resources("file:///pub/{+path}", include=("file:///pub/{+path}",)).may_read(disguise)


@pytest.mark.parametrize(
    "uri", ["doc://a%20b", "doc://x/https://y//z", "doc://a/b?x=1#f", "doc://a...b", "DOC://a", "doc://..a/b.."]
)
def test_what_is_included_as_it_is_written_can_be_read(uri: str) -> None:
    assert resources(include=(uri,)).may_read(uri)
    assert resources(include=(f"{uri[:6]}*",)).may_read(uri)
    assert resources(exclude=("doc://other*",)).may_read(uri)


def test_dots_inside_what_is_included_stay_inside() -> None:
    docs = resources(include=("file:///docs/*",))
    assert docs.may_read("file:///docs/a/../b")
    assert docs.may_read("file:///docs/./b")
    assert not docs.may_read("file:///docs/a/../../b")
    relative = resources(include=("docs/*",), exclude=("docs/key",))
    assert relative.may_read("docs/a")
    assert not relative.may_read("docs/../key")
    assert not relative.may_read("docs/a/../key")
    assert not relative.may_read("docs/a:b/../../key:c")
    custom = resources(include=("doc://public/*",))
    assert not custom.may_read("doc://public/../private/x"), "a server may take what follows // for the path"


def test_with_include_what_can_be_read_is_included_or_of_an_included_template() -> None:
    some = resources("doc://{id}", "log://{day}", include=("doc://{id}", "cfg://*"))
    assert some.shown_templates == ["doc://{id}"]
    assert [uri for uri in ("doc://1", "doc://1/2", "log://1", "cfg://x", "x://y") if some.may_read(uri)] == [
        "doc://1",
        "cfg://x",
    ]
    assert some.shows("doc://1"), "what a client can read by a template it may as well see"
    assert not some.may_read("log://{day}"), "nor is a hidden template found by its own text"


def test_an_excluded_template_leads_nowhere_that_another_one_does_not() -> None:
    some = resources("doc://{id}", "doc://open/{id}", "doc://{kind}/{id}", exclude=("doc://{id}", "doc://{kind}/{id}"))
    assert some.shown_templates == ["doc://open/{id}"]
    assert some.may_read("doc://open/1")
    assert not some.may_read("doc://1")
    assert not some.may_read("doc://other/1")
    assert not some.may_read("doc://{id}")
    assert some.may_read("log://1"), "what belongs to no template is as free as ever"
    assert some.shows("doc://1"), "a resource that is listed by itself is not the template's"


def test_an_included_template_does_not_lead_to_what_is_excluded() -> None:
    some = resources("file:///{+path}", include=("file:///*",), exclude=("*.key",))
    assert some.may_read("file:///a")
    assert not some.may_read("file:///a.key")


def test_templates_beyond_the_limit_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEMPLATE_TEXT", 25)
    few = resources("doc://{id}", "log://{day}", "cfg://{x}", include=("*",))
    assert few.shown_templates == ["doc://{id}", "log://{day}"]
    assert few.surplus_templates == ["cfg://{x}"]
    assert not few.may_read("cfg://{x}")
    assert resources("doc://{id}", "log://{day}", "cfg://{x}").surplus_templates == []


def test_a_uri_that_is_too_long_is_not_looked_at() -> None:
    assert not resources(include=("*",)).may_read("doc://" + "x" * MAX_TEXT)
    assert not resources(exclude=("x",)).may_read("doc://" + "x" * MAX_TEXT)


ODD = st.text("ab/.%2e?#:A", max_size=10)


@given(rest=ODD, pattern=st.text("ab/*", min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_the_short_way_for_plain_uris_leads_to_the_same(rest: str, pattern: str) -> None:
    hiding = resources(exclude=(f"doc:{pattern}", pattern))
    for start in ("", "doc://", "doc:", "doc:///", "Doc://"):
        quick = hiding.shows(start + rest)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_is_plain", lambda head, rest: False)
            assert hiding.shows(start + rest) == quick


PATHS = st.lists(
    st.sampled_from(["secret", "pub", "key", "..", ".", "", "%2e%2e", "%2E", "s%65cret", "a%2F..", "x#y", "q?z", "%"]),
    max_size=7,
).map("/".join)


@given(path=PATHS)
@settings(max_examples=1000, deadline=None)
def test_what_a_file_system_would_open_decides(path: str) -> None:
    """Against the standard library's idea of a path, which is that of most servers of files."""
    opened = posixpath.normpath(f"/{unquote(path)}")
    uri = f"file:///{path}"
    if opened.startswith("/secret/"):
        assert not resources(exclude=("file:///secret/*",)).may_read(uri)
    if resources(include=("file:///pub/*",)).may_read(uri):
        assert opened == "/pub" or opened.startswith("/pub/")
