"""Random valid catalogues: every member the protocol knows, absent, empty or full, and members it does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.golden.json_text import Number, Style

SPELLINGS = ("0", "-0", "1.0", "1.10", "1E+5", "1e400", "-1.5e-7", "9007199254740993", "1" * 30, "0.1000")
NUMBERS = st.one_of(
    st.sampled_from(SPELLINGS), st.integers().map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr)
).map(Number)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
KEYS = TEXTS | st.sampled_from(["uri", "type", "resource", "_meta", "name", "code", "resultType", "progressToken"])
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=3)
STYLES = st.builds(
    Style,
    ascii=st.booleans(),
    colon=st.sampled_from([":", ": ", " : "]),
    comma=st.sampled_from([",", ", ", ",\t"]),
    pad=st.sampled_from(["", " "]),
)

UNKNOWN = st.dictionaries(TEXTS.map("x-{}".format), JSON, max_size=2)
"""Members of nobody's specification."""
META = st.one_of(st.just({}), st.dictionaries(TEXTS.map("com.example/{}".format), JSON, max_size=2))
ICONS = st.lists(
    st.fixed_dictionaries(
        {"src": TEXTS},
        optional={"mimeType": TEXTS, "sizes": st.lists(TEXTS, max_size=2), "theme": st.sampled_from(["dark", "light"])},
    ),
    max_size=2,
)
ANNOTATIONS = st.fixed_dictionaries(
    {}, optional={"audience": st.lists(TEXTS, max_size=2), "priority": NUMBERS, "lastModified": TEXTS, "x-n": JSON}
)
HINTS = st.fixed_dictionaries(
    {},
    optional={"title": TEXTS, "readOnlyHint": st.booleans(), "destructiveHint": st.booleans(), "x-hint": JSON},
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(["string", "number"]), "const": JSON, "title": TEXTS}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array"]),
            "properties": st.dictionaries(TEXTS, inner, max_size=2),
            "required": st.lists(TEXTS, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(TEXTS, inner, max_size=1),
            "definitions": st.dictionaries(TEXTS, inner, max_size=1),
            "$ref": st.just("#/$defs/a"),
            "$schema": st.just("http://json-schema.org/draft-07/schema#"),
            "additionalProperties": st.booleans() | inner,
            "default": JSON,
            "minimum": NUMBERS,
            "x-keyword": JSON,
        },
    ),
    max_leaves=4,
)

_NAME_CHARACTERS = st.characters(categories=["L", "N", "S", "P"])
NAMES = st.one_of(
    st.text("abcXYZ019_-./", min_size=1, max_size=20),
    st.text(_NAME_CHARACTERS, min_size=1, max_size=12),
    st.text("ab", min_size=125, max_size=140),
    st.text("a \t\u3000\x07b", min_size=1, max_size=8),
)
URIS = st.one_of(
    st.sampled_from(
        [
            "file:///a/b.txt",
            "file:///a/../b//c.txt",
            "urn:isbn:0451450523",
            "https://example.com/x?y=1#z",
            "HTTP://Example.com/%7Eme",
            "data:text/plain;base64,aGk=",
            "relative/path",
            "/absolute",
            "//host/path",
            "mailto:someone@example.com",
            "mcp-connection:h:file:///a",
            "ui://widget/index.html",
            "C:\\dir\\file",
            "x:",
            "",
        ]
    ),
    st.builds("{}{}".format, st.sampled_from(["doc://", "db:", "g+h.2://u@host:1/", "", "https://"]), TEXTS),
)
TEMPLATES = st.sampled_from(
    [
        "db://tables/{table}/rows{/row*}",
        "x:{+path}",
        "{scheme}://{+host}/a",
        "search{?q,lang}",
        "urn:{a}:{b}",
        "https://example.com/{+path}{#part}",
        "file:///{path:3}{;k*}{.ext}",
        "{+all}",
        "doc://é/{a}{&b}",
    ]
)


class Catalogue(NamedTuple):
    """All items by the member they are listed under, and how they are written and paged."""

    items: dict[str, list[dict[str, Any]]]
    style: Style
    page_size: int


def _items(
    identity: str, identities: st.SearchStrategy[str], required: dict[str, Any], optional: dict[str, Any]
) -> st.SearchStrategy[list[dict[str, Any]]]:
    known = st.fixed_dictionaries({identity: identities, **required}, optional=optional)
    whole: st.SearchStrategy[dict[str, Any]] = st.builds(lambda one, other: {**other, **one}, known, UNKNOWN)
    return st.lists(whole, max_size=3, unique_by=lambda item: item[identity])


_COMMON: dict[str, Any] = {"title": TEXTS, "description": TEXTS, "icons": ICONS, "_meta": META}
_ARGUMENTS = st.lists(
    st.fixed_dictionaries(
        {"name": TEXTS},
        optional={"title": TEXTS, "description": TEXTS, "required": st.booleans(), "x-argument": JSON},
    ),
    max_size=2,
)
_INPUT_SCHEMAS = SCHEMAS.map(lambda schema: {**schema, "type": "object"})
_VIEWS = st.fixed_dictionaries({"ui": st.fixed_dictionaries({"resourceUri": st.just("ui://v/1"), "x": JSON})})

TOOLS = _items(
    "name",
    NAMES,
    {"inputSchema": _INPUT_SCHEMAS},
    {
        **_COMMON,
        "_meta": META | _VIEWS,
        "outputSchema": SCHEMAS,
        "annotations": HINTS,
        "execution": st.fixed_dictionaries({}, optional={"taskSupport": st.just("forbidden"), "x-execution": JSON}),
    },
)
RESOURCES = _items(
    "uri",
    URIS,
    {"name": TEXTS},
    {**_COMMON, "mimeType": TEXTS, "size": NUMBERS, "annotations": ANNOTATIONS},
)
RESOURCE_TEMPLATES = _items(
    "uriTemplate", TEMPLATES, {"name": TEXTS}, {**_COMMON, "mimeType": TEXTS, "annotations": ANNOTATIONS}
)
PROMPTS = _items("name", NAMES, {}, {**_COMMON, "arguments": _ARGUMENTS})

_build: Callable[..., Catalogue] = lambda tools, resources, templates, prompts, style, size: Catalogue(  # noqa: E731
    {"tools": tools, "resources": resources, "resourceTemplates": templates, "prompts": prompts}, style, size
)
CATALOGUES = st.builds(
    _build, TOOLS, RESOURCES, RESOURCE_TEMPLATES, PROMPTS, STYLES, st.integers(min_value=1, max_value=3)
)
