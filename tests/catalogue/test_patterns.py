"""Patterns mean what they should, against a slow and obvious matcher, and cost what they should."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from uritemplate import URITemplate

from mcp_connections.mounts import patterns
from mcp_connections.mounts.patterns import MAX_TEXT, Patterns, Wildcard, glob, template

ALPHABET = "ab/"
TEXTS = st.text(ALPHABET, max_size=8)
GLOBS = st.text(ALPHABET + "*?", max_size=6)
TOKENS = st.lists(st.one_of(st.sampled_from(ALPHABET), st.sampled_from(list(Wildcard))), max_size=6)


def obvious(pattern: patterns.Pattern, text: str) -> bool:
    """Tries everything."""

    @cache
    def leads(place: int, start: int) -> bool:
        if place == len(pattern):
            return start == len(text)
        token, rest = pattern[place], text[start:]
        if token is Wildcard.ONE:
            return bool(rest) and leads(place + 1, start + 1)
        if isinstance(token, Wildcard):
            taken = len(rest) if token is Wildcard.ANY else len(rest.partition("/")[0])
            return any(leads(place + 1, start + length) for length in range(taken + 1))
        return rest[:1] == token and leads(place + 1, start + 1)

    return leads(0, 0)


@given(pattern=TOKENS, text=TEXTS)
@settings(max_examples=500, deadline=None)
@example(pattern=[Wildcard.ANY, "a", Wildcard.SEGMENT, "b"], text="a/ab")
def test_one_pattern(pattern: patterns.Pattern, text: str) -> None:
    assert Patterns([pattern]).matches(text) == obvious(pattern, text)


@given(several=st.lists(TOKENS, max_size=5), texts=st.lists(TEXTS, max_size=4), bits=st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_several_patterns_are_each_what_they_are_alone(
    several: list[patterns.Pattern], texts: list[str], bits: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "GROUP_BITS", bits)
        together = Patterns(several)
    assert bool(together) == bool(several)
    for text in texts:
        assert together.matches(text) == any(obvious(each, text) for each in several)
    assert together.used_by(texts) == [any(obvious(each, text) for text in texts) for each in several]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("read_*", ["read_", "read_file"], ["read", "Read_file", "xread_file"]),
        ("*_all", ["_all", "x_all"], ["_all_", "all"]),
        ("a?c", ["abc", "a/c", "a\nc", "aäc"], ["ac", "abbc"]),
        ("*", ["", "a", "a/b\nc"], []),
        ("a*b*c", ["abc", "a__b_b_c"], ["ab", "acb"]),
        ("[ab].{c}\\", ["[ab].{c}\\"], ["a.c\\"]),
        ("file://*.txt", ["file:///a/b.txt"], ["file:///a/b.txt/c"]),
    ],
)
def test_globs(pattern: str, matching: list[str], others: list[str]) -> None:
    globs = Patterns([glob(pattern)])
    assert [text for text in matching + others if globs.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("doc://{id}", ["doc://1", "doc://", "doc://a%2Fb"], ["doc://1/2", "xdoc://1"]),
        ("doc://{a}/x/{b}", ["doc://1/x/2"], ["doc://1/2/x/3", "doc://1/x"]),
        ("file:///{+path}", ["file:///a/b", "file:///"], ["file://a"]),
        ("file:///{path*}", ["file:///a/b"], ["doc:///a"]),
        ("x:y{/segments*}", ["x:y/a/b", "x:y"], ["x:z"]),
        ("s://q{?a,b}", ["s://q?a=/1&b=2", "s://q"], ["s://p?a=1"]),
        ("d://{name}.{kind}", ["d://a.b", "d://a.b.c"], ["d://a", "d://a/b.c"]),
        ("odd://{unclosed", ["odd://{unclosed"], ["odd://x"]),
        ("odd://}{x}", ["odd://}1"], ["odd://1"]),
        ("a*b?{x}", ["a*b?1"], ["axb?1", "a*bc1"]),
    ],
)
def test_templates(pattern: str, matching: list[str], others: list[str]) -> None:
    templates = Patterns([template(pattern)])
    assert [text for text in matching + others if templates.matches(text)] == matching


EXPRESSIONS = st.tuples(
    st.sampled_from(["", "+", "#", "/", ".", ";", "?", "&"]), st.sampled_from(["a", "b", "a,b", "a:2", "b*", "c*"])
).map(lambda parts: f"{{{parts[0]}{parts[1]}}}")
TEMPLATES = st.lists(st.one_of(EXPRESSIONS, st.sampled_from(["x", "/", ".", "doc://", "?"])), max_size=6).map("".join)


@given(
    text=TEMPLATES, a=st.text(max_size=5), b=st.text("/ab%é", max_size=5), c=st.lists(st.text(max_size=3), max_size=3)
)
@settings(max_examples=300, deadline=None)
def test_whatever_a_template_expands_to_matches_it(text: str, a: str, b: str, c: list[str]) -> None:
    assert Patterns([template(text)]).matches(URITemplate(text).expand(a=a, b=b, c=c))


class Counted(str):
    """Counts the characters that are looked at."""

    __slots__ = ()
    looks = 0

    def __iter__(self) -> Iterator[str]:
        for character in super().__iter__():
            Counted.looks += 1
            yield character


@pytest.mark.parametrize(
    "hard",
    ["a*" * 250 + "b", "*a" * 250 + "b", "?*" * 250 + "b", "*" * 500 + "b", "{x}a" * 120 + "b", "{+x}a{y}" * 60 + "b"],
)
def test_no_pattern_looks_at_a_character_twice(hard: str) -> None:
    """The patterns on which backtracking takes longer than the universe lasts."""
    one = Patterns([glob(hard)]) if "{" not in hard else Patterns([template(hard)])
    Counted.looks = 0
    assert not one.matches(Counted("a" * MAX_TEXT))
    assert Counted.looks <= MAX_TEXT
    assert one.matches("a" * (MAX_TEXT - 1) + "b")


def test_work_grows_with_the_text_and_the_groups_and_no_more() -> None:
    many = Patterns([glob(f"{number:04d}*") for number in range(1000)])
    Counted.looks = 0
    assert many.matches(Counted("0999" + "x" * 1000))
    groups = 1000 * 6 // patterns.GROUP_BITS + 1
    assert Counted.looks <= 5 * groups + 1004


def test_a_text_that_is_too_long_matches_nothing() -> None:
    everything = Patterns([glob("*")])
    assert everything.matches("x" * MAX_TEXT)
    assert not everything.matches("x" * (MAX_TEXT + 1))
    assert everything.used_by(["x" * (MAX_TEXT + 1)]) == [False]
