"""YAML and JSON text to documents: JSON data as kubectl would send it, with the place of every field.

What YAML has beyond JSON is read as Kubernetes reads it: ``yes`` and ``on`` are booleans, a date is a string, keys are
strings, merge keys and anchors work. Key given twice, values that are no JSON and aliases that explode are faults.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from mcp_connections.folder.errors import Fault

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""Values in one document, those behind aliases counted at every use."""

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LOADER):  # type: ignore[misc]  # which base it is depends on how PyYAML was built
    """The scalars that Kubernetes knows: no dates, no base-60 numbers."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own way to declare them)


for _name, _pattern, _first in (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(0b[0-1_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"^(?:{_pattern})$"), list(_first))


@dataclass(frozen=True)
class Document:
    """One manifest of a file."""

    data: Any
    node: yaml.Node | None = None
    """Where things are; None where the text could only be read as JSON."""

    def place(self, field: str) -> tuple[int | None, int | None]:
        """Line and column of a field such as ``spec.transport.http.headers[0].name``, or of its nearest owner that is
        there."""
        if self.node is None:
            return None, None
        mark = self.node.start_mark
        node: yaml.Node | None = self.node
        while field and node is not None:
            found, node, field = _step(node, field)
            mark = found or mark
        return mark.line + 1, mark.column + 1

    def items(self, member: str) -> list[Document]:
        """The entries of a list as documents of their own."""
        entries: list[Any] = self.data[member]
        nodes: list[yaml.Node | None] = [None] * len(entries)
        if isinstance(self.node, yaml.MappingNode):
            nodes = next(value.value for key, value in self.node.value if key.value == member)
        return [Document(entry, node) for entry, node in zip(entries, nodes, strict=True)]

    def fault(self, field: str, message: str) -> Fault:
        """A fault of one field."""
        line, column = self.place(field)
        return Fault(message, line=line, column=column, field=field)


def read_documents(content: bytes, *, is_json: bool = False) -> list[Document]:
    """The documents of a file, empty ones left out. Raises Fault."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Fault("is not UTF-8 text. Save the file in UTF-8.", line=line) from None
    if is_json and (document := _read_json(text)):
        return [document]
    try:
        return list(_read_yaml(text))
    except RecursionError:
        raise Fault(f"is nested more than {MAX_DEPTH} levels deep") from None


def _read_json(text: str) -> Document | None:
    """JSON has one spelling that YAML has not, characters as pairs of \\u escapes. None leaves the text to the YAML
    reader, which knows the place of a fault."""
    try:
        data = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    _check_json(data, "")
    try:
        return Document(data, yaml.compose(text, Loader=_Loader))
    except yaml.YAMLError:
        return Document(data)


def _check_json(value: Any, field: str, levels: int = 0) -> None:
    """Refuse what the YAML reader refuses, too, and nobody could write down again. Raises Fault."""
    if levels > MAX_DEPTH:
        raise Fault(f"is nested more than {MAX_DEPTH} levels deep")
    match value:
        case dict():
            for key, member in value.items():
                _check_json(key, field)
                _check_json(member, f"{field}.{key}" if field else key, levels + 1)
        case list():
            for place, item in enumerate(value):
                _check_json(item, f"{field}[{place}]", levels + 1)
        case str() if _HALF_A_CHARACTER.search(value):
            raise Fault("has a \\u escape of half a character: the other one of the pair is missing", field=field)
        case float() if not math.isfinite(value):
            raise Fault("has a number that is too large", field=field)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != len(dict(pairs)):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_yaml(text: str) -> Iterator[Document]:
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            data = _Builder().build(node).data
            if data is not None:
                yield Document(data, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"is not valid YAML: {' '.join(filter(None, (error.context, error.problem)))}"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise Fault(message, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Fault(f"is not valid YAML: {error.reason}", line=line) from None


@dataclass(frozen=True, slots=True)
class _Built:
    """A node's data, with how many values and levels it has."""

    data: Any
    values: int = 1
    levels: int = 0


class _Builder:
    """Nodes to JSON data. A node is built once, however many aliases lead to it; what they multiply is counted, not
    made, so that a few lines cannot fill the memory."""

    def __init__(self) -> None:
        self._built: dict[int, _Built | None] = {}
        self._scalars = yaml.constructor.SafeConstructor()

    def build(self, node: yaml.Node) -> _Built:
        """Raises Fault."""
        if id(node) in self._built:
            built = self._built[id(node)]
            if built is None:
                raise _fault(node, "has an alias within itself")
            return built
        self._built[id(node)] = None
        built = self._build(node)
        if built.values > MAX_VALUES:
            raise _fault(node, f"has more than {MAX_VALUES} values, aliases included. Split the file.")
        if built.levels > MAX_DEPTH:
            raise _fault(node, f"is nested more than {MAX_DEPTH} levels deep")
        self._built[id(node)] = built
        return built

    def _build(self, node: yaml.Node) -> _Built:
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            self._check_keys(node)
            self._scalars.flatten_mapping(node)
            # Explicit members come behind merged ones and win; without this, merges of merges would multiply.
            node.value = list({key.value: (key, value) for key, value in node.value}.values())
            members = {key.value: self.build(value) for key, value in node.value}
            return _joined({key: member.data for key, member in members.items()}, members.values())
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            items = [self.build(item) for item in node.value]
            return _joined([item.data for item in items], items)
        if isinstance(node, yaml.ScalarNode):
            return _Built(self._scalar(node))
        raise _fault(node, f"has the tag {node.tag}, which no manifest uses")

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _fault(key, "has a key that is not a string")
            if key.value in seen:
                raise _fault(key, f"has the key {key.value!r} twice")
            seen.add(key.value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            match node.tag.removeprefix(_TAG):
                case "str" | "timestamp" | "merge" | "value":
                    return node.value
                case "null":
                    return None
                case "bool":
                    return self._scalars.construct_yaml_bool(node)
                case "int":
                    return self._scalars.construct_yaml_int(_octal(node))
                case "float" if math.isfinite(number := self._scalars.construct_yaml_float(node)):
                    return number
        except ValueError:
            pass
        raise _fault(node, f"has a value that JSON does not have ({node.tag.removeprefix(_TAG)})")


def _joined(data: Any, parts: Collection[_Built]) -> _Built:
    levels = 1 + max((part.levels for part in parts), default=0)
    return _Built(data, 1 + sum(part.values for part in parts), levels)


def _octal(node: yaml.ScalarNode) -> yaml.ScalarNode:
    """YAML 1.2 writes 0o17 what YAML 1.1 writes 017."""
    return yaml.ScalarNode(node.tag, node.value.replace("0o", "0", 1), node.start_mark, node.end_mark)


def _fault(node: yaml.Node, message: str) -> Fault:
    return Fault(message, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _step(node: yaml.Node, field: str) -> tuple[Any, yaml.Node | None, str]:
    """One step down the path: the mark of the member, the member, and the rest of the path."""
    if isinstance(node, yaml.SequenceNode) and (index := re.match(r"\[(\d+)\]\.?", field)):
        place = int(index.group(1))
        if place < len(node.value):
            return node.value[place].start_mark, node.value[place], field[index.end() :]
    if isinstance(node, yaml.MappingNode):
        # Keys may hold dots (labels, data keys): the longest one that fits is meant.
        fitting = [pair for pair in node.value if re.match(rf"{re.escape(pair[0].value)}(\.|\[|$)", field)]
        if fitting:
            key, value = max(fitting, key=lambda pair: len(pair[0].value))
            return key.start_mark, value, field[len(key.value) :].removeprefix(".")
    return None, None, ""
