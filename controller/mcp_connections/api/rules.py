"""Cross-field rules, each told twice: as CEL for the API server and as Python for manifests read from a folder.

A folder has no API server in front of it, so what the CRD refuses the models must refuse too, in the same
words. Keeping both forms in one object is what keeps them equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that a value must meet.

    Used on a field as ``Annotated[T, Rule(...)]`` or on an object in its ``rules``. ``message`` reads on after
    the field's path ("must be …"). ``field`` is the member of the object that the message is about, empty for the
    object itself.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]
    field: str = ""
    shape: Callable[[Mapping[str, Any], bool], bool] | None = None
    """The same on the object as JSON, for a rule that asks only which members are there: it can be told of an object
    whose members have faults of their own. The second argument: another member may be meant by a misspelled one."""

    def as_validation(self) -> dict[str, str]:
        """The entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.cel, "message": self.message}
        if self.field:
            entry["fieldPath"] = f".{self.field}"
        return entry

    def check(self, value: Any) -> Any:
        """The value itself. Raises PydanticCustomError of type ``rules`` if the rule does not hold."""
        if not self.holds(value):
            raise broken([self])
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return with_rules(handler(schema), (self,))


def broken(rules: list[Rule]) -> PydanticCustomError:
    """The error that carries every broken rule of one value; ``parsing`` turns it into field errors."""
    failures = [(rule.field, rule.message) for rule in rules]
    text = "; ".join(f"{field} {message}".strip() for field, message in failures)
    return PydanticCustomError("rules", "{text}", {"text": text, "failures": failures})


def with_rules(schema: Mapping[str, Any], rules: tuple[Rule, ...]) -> dict[str, Any]:
    """The JSON schema with the rules appended to its ``x-kubernetes-validations``."""
    result = dict(schema)
    if rules:
        result[VALIDATIONS] = [*result.get(VALIDATIONS, ()), *(rule.as_validation() for rule in rules)]
    return result


def quoted(text: str) -> str:
    """A CEL string literal. Raw, so that a regular expression reads the same in CEL and in Python."""
    if "'" not in text:
        return f"r'{text}'"
    if '"' not in text:
        return f'r"{text}"'
    raise ValueError(f"a CEL raw string cannot hold both kinds of quotes: {text}")


def matching(pattern: str, message: str) -> Rule:
    """A string that matches an anchored regular expression, written in what RE2 and Python's re share."""
    compiled = re.compile(pattern, re.ASCII)
    return Rule(
        cel=f"self.matches({quoted(pattern)})",
        message=message,
        holds=lambda text: compiled.fullmatch(text) is not None,
    )


def one_of(*fields: str, at_least: int = 1) -> Rule:
    """An object that has exactly one of the given members, or at most one with ``at_least=0``."""
    present = ", ".join(f"has(self.{field})" for field in fields)
    names = f"{', '.join(fields[:-1])} and {fields[-1]}"
    count = "exactly" if at_least else "at most"
    comparison = "==" if at_least else "<="

    def holds(model: Any) -> bool:
        aliases = {field.alias or name: name for name, field in type(model).model_fields.items()}
        found = sum(getattr(model, aliases[field]) is not None for field in fields)
        return at_least <= found <= 1

    def shape(data: Mapping[str, Any], misspelled: bool) -> bool:
        least = 0 if misspelled else at_least
        return least <= sum(data.get(field) is not None for field in fields) <= 1

    return Rule(
        cel=f"[{present}].filter(present, present).size() {comparison} 1",
        message=f"must have {count} one of {names}",
        holds=holds,
        shape=shape,
    )
