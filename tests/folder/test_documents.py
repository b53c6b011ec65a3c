"""YAML and JSON text to data with places."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.folder.documents import MAX_DEPTH, read_documents
from mcp_connections.folder.errors import Fault

TEXT = b"""\
# two documents
kind: A
metadata:
  labels:
    app.kubernetes.io/name: x
    app: y
spec:
  headers:
    - name: one
      value: 1
    - name: two
---
---
{"kind": "B", "list": [1, {"deep": true}]}
"""


def data(text: str) -> Any:
    (document,) = read_documents(text.encode())
    return document.data


def fault(content: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        read_documents(content)
    return caught.value


def test_several_documents_empty_ones_left_out() -> None:
    first, second = read_documents(TEXT)

    assert first.data["spec"] == {"headers": [{"name": "one", "value": 1}, {"name": "two"}]}
    assert second.data == {"kind": "B", "list": [1, {"deep": True}]}


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("", (2, 1)),
        ("kind", (2, 1)),
        ("metadata.labels", (4, 3)),
        ("metadata.labels.app.kubernetes.io/name", (5, 5)),
        ("metadata.labels.app", (6, 5)),
        ("spec.headers[0].value", (10, 7)),
        ("spec.headers[1]", (11, 7)),
        # what is not there is shown where it belongs
        ("spec.headers[1].value", (11, 7)),
        ("spec.headers[7].value", (8, 3)),
        ("spec.transport.http.url", (7, 1)),
        ("apiVersion", (2, 1)),
    ],
)
def test_places_of_fields(field: str, place: tuple[int, int]) -> None:
    assert read_documents(TEXT)[0].place(field) == place


def test_places_in_a_later_document_count_from_the_start_of_the_file() -> None:
    assert read_documents(TEXT)[1].place("list[1].deep") == (14, 28)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: yes", True),
        ("a: Off", False),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("a: 12:30:45", "12:30:45"),
        ("a: 017", 15),
        ("a: 0o17", 15),
        ("a: 0x1F", 31),
        ("a: 1_000", 1000),
        ("a: 1e3", 1000.0),
        ("a: -.5", -0.5),
        ("a: ~", None),
        ("a:", None),
        ("a: '1'", "1"),
        ("a: 1.2.3", "1.2.3"),
        ("a: v1", "v1"),
        ("a: =", "="),
        ("a: |\n  x\n  y\n", "x\ny\n"),
    ],
)
def test_scalars_are_read_as_kubernetes_reads_them(text: str, expected: object) -> None:
    assert data(text) == {"a": expected}
    assert type(data(text)["a"]) is type(expected)


def test_keys_are_strings() -> None:
    assert data("1: a\ntrue: b\n2024-01-01: c") == {"1": "a", "true": "b", "2024-01-01": "c"}


def test_anchors_and_merge_keys() -> None:
    assert data("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nagain: *b")["use"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("content", "line", "column", "part"),
    [
        (b"a: 1\nb: [1, 2\nc: 3\n", 3, None, "not valid YAML"),
        (b"a: 1\n\tb: 2\n", 2, 1, "tab"),
        (b"a: b: c\n", 1, 5, "mapping values are not allowed"),
        (b"x: 1\na: 1\na: 2\n", 3, 1, "'a' twice"),
        (b"a: 1\nb: \xff\n", 2, None, "UTF-8"),
        (b"a: 1\nb: \x07\n", 2, None, "control characters"),
        (b"a: *nowhere\n", 1, 4, "undefined alias"),
        (b"a:\n  b: !ruby/object x\n", 2, 6, "!ruby/object"),
        (b"a: !!python/object/apply:os.system [x]\n", 1, 4, "python/object"),
        (b"a: !!binary aGk=\n", 1, 4, "binary"),
        (b"a: .nan\n", 1, 4, "JSON does not have"),
        (b"[a]: 1\n", 1, 1, "not a string"),
        (b"a: &x [*x]\n", 1, 4, "alias within itself"),
        (b"a: " + b"[" * (MAX_DEPTH + 5) + b"]" * (MAX_DEPTH + 5), 1, None, "levels deep"),
        (b"[" * 100_000, 1, None, "depth"),
        (b"a: " + b"9" * 5000 + b"\n", 1, 4, "JSON does not have"),
    ],
)
def test_faults_have_a_place(content: bytes, line: int | None, column: int | None, part: str) -> None:
    found = fault(content)

    assert part in str(found)
    assert line is None or found.line == line
    assert column is None or found.column == column


def test_aliases_that_explode_are_stopped() -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]

    assert "aliases included" in str(fault("\n".join(lines).encode()))


def test_merges_that_explode_are_harmless() -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 10)}], z{i}: 3}}" for i in range(1, 30)]

    assert data("\n".join(lines))["a29"] == {"x": 1, "y": 2, **{f"z{i}": 3 for i in range(1, 30)}}


def test_json_with_surrogate_pairs_and_places() -> None:
    (document,) = read_documents(b'{\n "a": "\\ud83d\\ude00",\n "b": 1\n}', is_json=True)
    assert document.data == {"a": "\U0001f600", "b": 1}

    (document,) = read_documents(b'{\n "a": "x",\n "b": 1\n}', is_json=True)
    assert document.place("b") == (3, 2)


@pytest.mark.parametrize(
    ("text", "field", "part"),
    [
        (b'{"stringData": {"key": "\\ud83d"}}', "stringData.key", "half a character"),
        (b'{"spec": [1, {"a": "x\\ude00"}]}', "spec[1].a", "half a character"),
        (b'{"spec": {"\\ud83d": 1}}', "spec", "half a character"),
        (b'{"spec": {"number": -1e999}}', "spec.number", "too large"),
        (b'{"a":' * 150 + b"1" + b"}" * 150, "", "levels deep"),
    ],
)
def test_json_that_nobody_could_write_again_is_a_fault(text: bytes, field: str, part: str) -> None:
    with pytest.raises(Fault, match=part) as caught:
        read_documents(text, is_json=True)
    assert caught.value.field == field


def test_broken_json_tells_the_place() -> None:
    with pytest.raises(Fault) as caught:
        read_documents(b'{\n "a": 1,\n "a": 2\n}', is_json=True)

    assert (caught.value.line, "'a' twice" in str(caught.value)) == (3, True)


# YAML has no raw control characters, and folds its own kinds of line breaks.
PRINTABLE = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))


def json_values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    values: st.SearchStrategy[Any] = st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(texts, values, min_size=1, max_size=5)


@given(value=json_values(st.text()), ascii_only=st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_json_file_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    (document,) = read_documents(json.dumps(value, ensure_ascii=ascii_only).encode("utf-8"), is_json=True)

    assert document.data == value


@given(value=json_values(PRINTABLE))
@settings(max_examples=80, deadline=None)
def test_json_is_yaml(value: dict[str, Any]) -> None:
    (document,) = read_documents(json.dumps(value, ensure_ascii=False).encode("utf-8"))

    assert document.data == value


@given(value=json_values(PRINTABLE))
@settings(max_examples=80, deadline=None)
def test_what_a_yaml_library_writes_is_read_back(value: dict[str, Any]) -> None:
    (document,) = read_documents(yaml.safe_dump(value, allow_unicode=True).encode("utf-8"))

    assert document.data == value


@given(content=st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_documents_or_a_fault(content: bytes) -> None:
    for is_json in (False, True):
        try:
            documents = read_documents(content, is_json=is_json)
        except Fault:
            continue
        for document in documents:
            json.dumps(document.data)
