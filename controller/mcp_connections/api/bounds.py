"""Bounds that status keeps by cutting, where spec keeps them by refusing.

Status tells what others said: error texts, names of tools, tails of stderr. However long that is, the API server must
accept the write, or the whole status stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from mcp_connections.api.lists import LIST_TYPE


@dataclass(frozen=True, slots=True)
class Clip:
    """A string cut to ``longest`` characters, the last of them an ellipsis if anything was cut."""

    longest: int

    def _clip(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > self.longest:
            return f"{value[: self.longest - 1]}…"
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._clip, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "maxLength": self.longest}


@dataclass(frozen=True, slots=True)
class Keep:
    """An atomic list of which the first ``first`` items are kept, or the last ``last``."""

    first: int = 0
    last: int = 0

    def _keep(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return value[: self.first] if self.first else value[-self.last :]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._keep, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "maxItems": self.first or self.last, LIST_TYPE: "atomic"}
