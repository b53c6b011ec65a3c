"""Random results and errors of calls, reads and prompts."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.golden.catalogues import ANNOTATIONS, ICONS, JSON, META, NUMBERS, TEXTS, UNKNOWN, URIS
from tests.golden.json_text import Number


def _with_unknown(known: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda one, other: {**one, **other}, known, UNKNOWN)


_COMMON: dict[str, Any] = {"annotations": ANNOTATIONS, "_meta": META}
_DATA = st.fixed_dictionaries({"data": TEXTS, "mimeType": TEXTS}, optional=_COMMON)
CONTENTS = _with_unknown(
    st.fixed_dictionaries({"uri": URIS, "text": TEXTS}, optional={"mimeType": TEXTS, "_meta": META})
    | st.fixed_dictionaries({"uri": URIS, "blob": TEXTS}, optional={"mimeType": TEXTS, "_meta": META})
)
BLOCKS = _with_unknown(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}, optional=_COMMON),
        _DATA.map(lambda block: {"type": "image", **block}),
        _DATA.map(lambda block: {**block, "type": "audio"}),
        st.fixed_dictionaries(
            {"type": st.just("resource_link"), "uri": URIS, "name": TEXTS},
            optional={"title": TEXTS, "description": TEXTS, "mimeType": TEXTS, "size": NUMBERS, "icons": ICONS}
            | _COMMON,
        ),
        st.fixed_dictionaries({"type": st.just("resource"), "resource": CONTENTS}, optional=_COMMON),
        st.fixed_dictionaries({"type": st.just("x-kind"), "uri": JSON}),
    )
)
RESULTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "tools/call": _with_unknown(
        st.fixed_dictionaries(
            {"content": st.lists(BLOCKS, max_size=3)},
            optional={"structuredContent": JSON, "isError": st.booleans(), "_meta": META},
        )
    ),
    "resources/read": _with_unknown(
        st.fixed_dictionaries({"contents": st.lists(CONTENTS, max_size=2)}, optional={"_meta": META})
    ),
    "prompts/get": _with_unknown(
        st.fixed_dictionaries(
            {
                "messages": st.lists(
                    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": BLOCKS}),
                    max_size=2,
                )
            },
            optional={"description": TEXTS, "_meta": META},
        )
    ),
}
CODES = st.one_of(
    st.sampled_from([-32700, -32600, -32601, -32602, -32603, -32002, -32001, -32010, -1, 0, 1, 2**53 + 1]),
    st.integers(min_value=-(2**31), max_value=2**31).filter(lambda code: not -32099 <= code <= -32000),
).map(lambda code: Number(str(code)))
ERRORS = _with_unknown(st.fixed_dictionaries({"code": CODES, "message": TEXTS}, optional={"data": JSON}))

LOGS = st.fixed_dictionaries(
    {"level": st.sampled_from(["debug", "info", "emergency"]), "data": JSON}, optional={"logger": TEXTS, "_meta": META}
)
PROGRESS = _with_unknown(
    st.fixed_dictionaries({"progress": NUMBERS}, optional={"total": NUMBERS, "message": TEXTS, "_meta": META})
)
NOTICES = st.lists(
    st.tuples(st.just("notifications/message"), LOGS) | st.tuples(st.just("notifications/progress"), PROGRESS),
    max_size=2,
)


class Answered(NamedTuple):
    """What a backend answers a request with, before it is written."""

    member: str
    value: dict[str, Any]
    notices: list[tuple[str, dict[str, Any]]]


def outcomes(method: str) -> st.SearchStrategy[Answered]:
    """How a request of ``method`` may end."""
    good = st.tuples(st.just("result"), RESULTS[method])
    bad = st.tuples(st.just("error"), ERRORS)
    return st.builds(lambda end, notices: Answered(end[0], end[1], notices), good | good | bad, NOTICES)
