"""JSON as text: the spellings that decoding and encoding again would lose."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_ESCAPES = st.sampled_from(
    [r"\u0041", r"\/", r"\n", r"\u000a", r"\ud83d\ude00", r"\"", "\\\\", "ü", "日本", "😀", "a", " "]
)
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
strings = st.one_of(
    st.lists(_ESCAPES, max_size=8).map(lambda parts: f'"{"".join(parts)}"'),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(json.dumps),
)


def json_texts(spaces: str) -> st.SearchStrategy[str]:
    """JSON values as text, with white space of ``spaces`` wherever it may be. Keys may repeat."""
    space = st.text(spaces, max_size=2)
    scalars = st.one_of(numbers, strings, st.sampled_from(["true", "false", "null", "{}", "[]"]))

    def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        padded = st.tuples(space, values, space).map("".join)
        pairs = st.tuples(space, strings, space, st.just(":"), padded).map("".join)
        return st.one_of(
            st.lists(padded, min_size=1, max_size=4).map(lambda items: f"[{','.join(items)}]"),
            st.lists(pairs, min_size=1, max_size=4).map(lambda items: f"{{{','.join(items)}}}"),
        )

    return st.recursive(scalars, containers, max_leaves=12)


def objects(spaces: str) -> st.SearchStrategy[str]:
    """JSON objects as text."""
    values = json_texts(spaces)
    pairs = st.tuples(strings, values).map(lambda pair: f"{pair[0]}:{pair[1]}")
    return st.lists(pairs, max_size=4).map(lambda items: f"{{{','.join(items)}}}")


def deep(depth: int) -> Any:
    """Lists in lists."""
    return b"[" * depth + b"]" * depth
