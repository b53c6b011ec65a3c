"""The reversible mapping of resource URIs."""

from __future__ import annotations

import string
from typing import Any

import pytest
import uritemplate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl

from mcp_connections.mounts.uris import public_uri, split_public_uri

PREFIXES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", fullmatch=True)
SCHEMES = st.sampled_from(["file", "ui", "urn", "data", "http", "HTTPS", "mcp-connection", "MCP-Connection", "x+y.z-1"])
NO_CONTROL = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=60)
URIS = st.one_of(
    NO_CONTROL,
    st.builds("{}://{}".format, SCHEMES, NO_CONTROL),
    st.builds("{}:{}".format, SCHEMES, NO_CONTROL),
    st.builds("{}:{}:{}".format, SCHEMES, PREFIXES, NO_CONTROL),
    st.builds("{}://{}/{}".format, SCHEMES, PREFIXES, NO_CONTROL),
)
VARIABLES = ["x", "y", "list"]
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "x": st.text(string.ascii_letters + "/:?#&% é", max_size=8),
        "y": st.text(string.ascii_letters + "/:", max_size=8),
        "list": st.lists(st.text(string.ascii_letters + "/:", max_size=4), max_size=3),
    },
)
EXPRESSIONS = st.builds(
    lambda operator, names, star: "{" + operator + ",".join(name + star for name in names) + "}",
    st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]),
    st.lists(st.sampled_from(VARIABLES), min_size=1, max_size=2, unique=True),
    st.sampled_from(["", "*"]),
)
LITERALS = st.text(string.ascii_letters + string.digits + "/:.-_~", max_size=8)
TEMPLATE_TAILS = st.lists(st.one_of(LITERALS, EXPRESSIONS), max_size=5).map("".join)
LITERAL_STARTS = st.one_of(
    st.builds("{}://z".format, SCHEMES), st.builds("{}:///".format, SCHEMES), st.builds("{}:/z".format, SCHEMES)
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("ui://x/y", "ui://p/x/y"),
        ("file:///a", "file:///p/a"),
        ("file:////a", "file:///p//a"),
        ("file:///", "file:///p/"),
        ("file://h/a", "file://p/h/a"),
        ("file://", "file://p/"),
        ("file:/a", "file:p:/a"),
        ("urn:isbn:1", "urn:p:isbn:1"),
        ("mailto:a@b", "mailto:p:a@b"),
        ("https://x/y", "mcp-connection:p:https://x/y"),
        ("HTTP://x/y", "mcp-connection:p:HTTP://x/y"),
        ("foo/bar", "mcp-connection:p:foo/bar"),
        ("{scheme}://x", "mcp-connection:p:{scheme}://x"),
        ("http{s}://x", "mcp-connection:p:http{s}://x"),
        ("", "mcp-connection:p:"),
        ("1a:b", "mcp-connection:p:1a:b"),
        ("mcp-connection:q:x", "mcp-connection:p:mcp-connection:q:x"),
        ("data://{id}{?format}", "data://p/{id}{?format}"),
        ("File://%7Ea/../B", "File://p/%7Ea/../B"),
    ],
)
def test_forms(uri: str, expected: str) -> None:
    assert public_uri("p", uri) == expected
    assert split_public_uri(expected) == ("p", uri)
    assert public_uri("", uri) == uri


@pytest.mark.parametrize(
    "uri", ["", "foo", "ui://x", "ui://a b/c", "ui://u@h/c", "urn:x", "http://p/x", "https:p:x", "MCP-Connection:p:x"]
)
def test_what_was_never_mapped_is_not_split(uri: str) -> None:
    assert split_public_uri(uri) is None


@given(prefix=PREFIXES, uri=URIS)
@settings(max_examples=150, deadline=None)
def test_the_mapping_is_reversible(prefix: str, uri: str) -> None:
    assert split_public_uri(public_uri(prefix, uri)) == (prefix, uri)


@pytest.mark.parametrize("uri", ["file:///docs/a.md", "file:///", "ui://view/x.html", "urn:isbn:1", "https://x//y"])
def test_clients_that_parse_urls_do_not_change_a_public_uri(uri: str) -> None:
    """pydantic's URLs, which common clients send, follow the URL standard: ``//`` in a path of ``file`` collapses."""
    assert str(AnyUrl(public_uri("notes", uri))) == public_uri("notes", uri)


@given(one=st.tuples(PREFIXES, URIS), other=st.tuples(PREFIXES, URIS))
@settings(max_examples=150, deadline=None)
@example(one=("p", "urn:q:x"), other=("p", "urn:x"))
@example(one=("p", "ui://q/x"), other=("q", "ui://x"))
@example(one=("p", "mcp-connection:p:x"), other=("p", "x"))
def test_different_uris_stay_different(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (public_uri(*one) == public_uri(*other)) == (one == other)


@given(prefix=PREFIXES, start=LITERAL_STARTS, tail=TEMPLATE_TAILS, values=VALUES)
@settings(max_examples=150, deadline=None)
def test_expanding_commutes_with_mapping(prefix: str, start: str, tail: str, values: dict[str, Any]) -> None:
    template = start + tail

    expanded = uritemplate.expand(public_uri(prefix, template), values)

    assert expanded == public_uri(prefix, uritemplate.expand(template, values))


@given(
    prefix=PREFIXES,
    template=st.one_of(TEMPLATE_TAILS, st.builds("{}:{}".format, SCHEMES, TEMPLATE_TAILS)),
    values=VALUES,
)
@settings(max_examples=150, deadline=None)
@example(prefix="p", template="x:{+x}", values={"x": "//host/a"})
@example(prefix="p", template="{+x}", values={"x": "file:///a"})
@example(prefix="p", template="x:{/x,y}", values={"x": "", "y": "a"})
def test_every_expansion_finds_back(prefix: str, template: str, values: dict[str, Any]) -> None:
    public = uritemplate.expand(public_uri(prefix, template), values)

    assert split_public_uri(public) == (prefix, uritemplate.expand(template, values))
