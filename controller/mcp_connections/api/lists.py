"""How lists merge and what must be unique in them: the two list types of server-side apply beside atomic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"


@dataclass(frozen=True, slots=True)
class ListMap:
    """A list whose items are identified by one member, merged item by item by server-side apply."""

    key: str

    def _check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        return _unique(items, [getattr(item, self.key) for item in items], self.key)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), LIST_TYPE: "map", LIST_KEYS: [self.key]}


@dataclass(frozen=True, slots=True)
class ListSet:
    """A list of distinct scalars."""

    def _check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        return _unique(items, list(items), "")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), LIST_TYPE: "set"}


def _unique(items: tuple[Any, ...], keys: list[str], member: str) -> tuple[Any, ...]:
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            what = f"must have another {member} than" if member else "must differ from"
            text = f"{what} the items before it: {key!r} is there twice"
            raise PydanticCustomError("rules", "{text}", {"text": text, "failures": [(f"[{index}]", text)]})
        seen.add(key)
    return items
