"""JSON Schema, as pydantic writes it, to the structural schema a CustomResourceDefinition needs.

A structural schema is JSON Schema without references, unions and nulls, see "Specifying a structural schema" in the
Kubernetes documentation of CustomResourceDefinitions. Whatever this walk does not know it refuses, so that a model
never loses a constraint on its way to the API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_FIRST = (
    "description", "type", "format", "enum", "default", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_LAST = ("required", "properties", "items", "additionalProperties")
_ORDER = (*_FIRST, *_LAST)
_KEPT = frozenset(_ORDER)
_DROPPED = frozenset({"title", "examples", "discriminator", "$defs"})
_FORMATS = frozenset({"date-time", "int64"})
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def _position(item: tuple[str, Any]) -> int:
    """Whatever describes a field itself goes before what is within it, for people who read the YAML."""
    return _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER) - len(_LAST)


def _is_int_or_string(schema: Mapping[str, Any]) -> bool:
    """Whether the schema is the one union that a structural schema may hold."""
    return "x-kubernetes-int-or-string" in schema and schema.get("anyOf") == [{"type": "integer"}, {"type": "string"}]


class NotStructural(ValueError):
    """A JSON Schema that no structural schema can express. The text says where and why."""


def structural(schema: Mapping[str, Any]) -> Schema:
    """The structural schema that accepts the same objects. Raises NotStructural."""
    return _Walk(schema.get("$defs", {})).convert(schema, "", ())


class _Walk:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> Schema:
        schema, within = self._resolved(schema, path, within)
        kept = _KEPT | {"anyOf"} if _is_int_or_string(schema) else _KEPT
        result: Schema = {}
        for keyword, value in schema.items():
            if keyword in kept or keyword.startswith("x-kubernetes-"):
                result[keyword] = value
            elif keyword == "const":
                result["enum"] = [value]
            elif keyword not in _DROPPED:
                raise NotStructural(f"{path or 'the root'}: {keyword} has no structural form")
        self._tidy(result, path)
        self._descend(result, path, within)
        return dict(sorted(result.items(), key=_position))

    def _resolved(
        self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema with its reference inlined and its null arm dropped. Members beside those win."""
        while True:
            arms = [arm for arm in schema.get("anyOf", ()) if arm != {"type": "null"}]
            if "$ref" in schema:
                name = schema["$ref"].removeprefix("#/$defs/")
                if name in within:
                    raise NotStructural(f"{path}: {name} contains itself")
                within = (*within, name)
                target: Mapping[str, Any] = self._definitions[name]
                schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
            elif len(arms) == 1:
                schema = {**arms[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
            else:
                return schema, within

    def _tidy(self, result: Schema, path: str) -> None:
        if "description" in result:
            result["description"] = " ".join(result["description"].replace("``", "`").split())
        # Defaults of objects are the sum of their members', and an empty string says no more than an absent one:
        # written out they only blow up every object.
        default = result.get("default")
        if default == "" or not isinstance(default, str | int | float):
            result.pop("default", None)
        if result.get("type") == "integer":
            result["format"] = "int64"
        if result.get("format", "int64") not in _FORMATS:
            raise NotStructural(f"{path}: the API server does not know the format {result['format']}")
        if "type" not in result and "x-kubernetes-int-or-string" not in result:
            raise NotStructural(f"{path or 'the root'}: has no type")

    def _descend(self, result: Schema, path: str, within: tuple[str, ...]) -> None:
        if "properties" in result:
            result.pop("additionalProperties", None)
            result["properties"] = {
                name: self.convert(member, f"{path}.{name}".lstrip("."), within)
                for name, member in result["properties"].items()
            }
            # The API server drops an empty one, and whoever applied it would find the definition changed by others.
            if not result["properties"]:
                del result["properties"]
        if "items" in result:
            result["items"] = self.convert(result["items"], f"{path}[]", within)
        values = result.pop("additionalProperties", False)
        if values is True or (values and self._is_anything(values)):
            result[_PRESERVE] = True
        elif values:
            result["additionalProperties"] = self.convert(values, f"{path}{{}}", within)

    def _is_anything(self, schema: Schema) -> bool:
        """Whether the schema is the empty one, as that of JsonValue is."""
        resolved, _ = self._resolved(schema, "", ())
        return not set(resolved) - _DROPPED
