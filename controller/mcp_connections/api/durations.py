"""Durations as Kubernetes writes them: the subset of Go's time.ParseDuration that GEP-2257 names.

A pydantic timedelta would take ISO 8601 (``PT5S``), which no Kubernetes user writes.
"""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mcp_connections.api.rules import Rule, quoted, with_rules

PATTERN = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
"""GEP-2257: up to four numbers of up to five digits, each with its unit; no sign, no fraction."""

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]{1,5})(ms|h|m|s)")
_WHOLE = re.compile(PATTERN, re.ASCII)
_MAX_LENGTH = 28


class Duration(str):
    """A length of time such as ``300ms``, ``5s``, ``2m30s`` or ``1h``. Equal text is equal; compare ``seconds``."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises ValueError if the text is not a duration."""
        if not _WHOLE.fullmatch(text):
            raise ValueError(_SYNTAX.message)
        return super().__new__(cls, text)

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return seconds(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls._parse, core_schema.str_schema(strict=True, max_length=_MAX_LENGTH)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return with_rules(handler(schema), (_SYNTAX,))

    @classmethod
    def _parse(cls, text: str) -> Self:
        try:
            return cls(text)
        except ValueError as error:
            message = str(error)
            raise PydanticCustomError("rules", "{text}", {"text": message, "failures": [("", message)]}) from None


def seconds(text: str) -> float:
    """The length of a duration in seconds. Raises ValueError if the text is not a duration."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: {_SYNTAX.message}")
    milliseconds = sum(int(number) * round(_SECONDS[unit] * 1000) for number, unit in _PART.findall(text))
    return milliseconds / 1000


def within(shortest: str, longest: str) -> Rule:
    """A duration from ``shortest`` to ``longest``, both included."""
    low, high = Duration(shortest), Duration(longest)
    return Rule(
        cel=(
            f"!self.matches({quoted(PATTERN)}) || "
            f"(duration(self) >= duration('{low}') && duration(self) <= duration('{high}'))"
        ),
        message=f"must be from {low} to {high}",
        holds=lambda value: low.seconds <= value.seconds <= high.seconds,
    )


_SYNTAX = Rule(
    cel=f"self.matches({quoted(PATTERN)})",
    message="must be a duration such as 300ms, 5s, 2m30s or 1h",
    holds=lambda text: _WHOLE.fullmatch(text) is not None,
)
