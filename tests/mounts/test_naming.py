"""Default prefixes and public names."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.naming import default_prefix, full_name, name_notice, public_name

PREFIXES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", fullmatch=True)
SEPARATORS = st.sampled_from(["_", ".", ":", "__", "-", "/"])
NAMES = st.text(max_size=200)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("redis", "redis"),
        ("github.com-prod.v2", "github-com-prod-v2"),
        ("a_b", "a_b"),
        ("a" * 40, "a" * 40),
    ],
)
def test_default_prefix_is_the_name_made_safe(name: str, expected: str) -> None:
    assert default_prefix("default", name, ()) == expected


def test_the_younger_of_two_names_that_sanitise_alike_gets_a_stable_hash() -> None:
    older = default_prefix("default", "a.b", ())
    younger = default_prefix("default", "a-b", {older})

    assert older == "a-b"
    assert younger == "a-b-99ac8d"
    assert default_prefix("other", "a-b", {older}) != younger


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    one, other = (default_prefix("default", "a" * 252 + last, ()) for last in "xy")

    assert len(one) == len(other) == 40
    assert one != other


@given(name=st.text(min_size=1, max_size=253), taken=st.booleans())
@settings(max_examples=100, deadline=None)
def test_default_prefix_is_always_a_short_safe_token(name: str, taken: bool) -> None:
    first = default_prefix("default", name, ())
    prefix = default_prefix("default", name, {first}) if taken else first

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", prefix)
    assert not taken or prefix != first or re.fullmatch(r".*-[0-9a-f]{6}", prefix)


@given(prefix=PREFIXES, separator=SEPARATORS, name=NAMES)
@settings(max_examples=150, deadline=None)
def test_public_names_are_short_and_hold_no_white_space(prefix: str, separator: str, name: str) -> None:
    public = public_name(prefix, separator, name)

    assert len(public) <= 128
    assert not any(character.isspace() or ord(character) < 32 for character in public)
    assert public.encode("utf-8")
    assert public == public_name(prefix, separator, name)


@given(prefix=PREFIXES, separator=SEPARATORS, names=st.tuples(NAMES, NAMES))
@settings(max_examples=150, deadline=None)
def test_two_names_of_one_backend_never_become_one(prefix: str, separator: str, names: tuple[str, str]) -> None:
    assume(names[0] != names[1])

    assert public_name(prefix, separator, names[0]) != public_name(prefix, separator, names[1])


@pytest.mark.parametrize("name", ["echo", "a.b/c", "検索", "émoji🎉", "x" * 120])
def test_names_that_fit_stay_as_they_are(name: str) -> None:
    assert public_name("p", "_", name) == f"p_{name}"
    assert public_name("", "_", name) == name


def test_a_name_of_128_characters_is_kept_and_one_more_is_aliased() -> None:
    assert public_name("p", "_", "x" * 126) == "p_" + "x" * 126

    alias = public_name("p", "_", "x" * 127)

    assert len(alias) == 128
    assert alias.startswith("p_xxx")
    assert re.fullmatch(r".*x_[0-9a-f]{8}", alias)


@pytest.mark.parametrize("name", ["a b", "a\tb", "a\nb", "a\x00b", "a\u2028b", "a\u00a0b", "a\ud800b"])
def test_bad_characters_become_an_alias(name: str) -> None:
    assert re.fullmatch(r"p_a_b_[0-9a-f]{8}", public_name("p", "_", name))


def test_the_alias_follows_the_full_name() -> None:
    assert public_name("p", "_", "a b") != public_name("p", "_", "a\tb")
    assert public_name("p", "_", "a b")[-8:] != public_name("p", ".", "a b")[-8:]


def test_notices_name_what_is_remarkable() -> None:
    assert name_notice("p_echo") is None
    assert name_notice("p_echo", "p_echo") is None
    assert "70 characters" in (name_notice("x" * 70) or "")

    full = full_name("p", "_", "a b")
    assert "white space" in (name_notice(public_name("p", "_", "a b"), full) or "")
    full = full_name("p", "_", "x" * 200)
    assert "longer than 128" in (name_notice(public_name("p", "_", "x" * 200), full) or "")
