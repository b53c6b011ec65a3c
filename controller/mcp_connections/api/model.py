"""Base of the resource models: camelCase on the wire, immutable, rules checked, docstrings as descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, GetJsonSchemaHandler, PlainSerializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from mcp_connections.api.rules import Rule, broken, with_rules


class ApiModel(BaseModel):
    """An object of the resource API. Instances are immutable values: equal content is equal."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    """Rules over several members of this object."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        # As the API server has it, which removes nulls from objects of known fields before it sets defaults.
        if isinstance(data, Mapping):
            return {member: value for member, value in data.items() if value is not None}
        return data

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        failed = [rule for rule in self.rules if not rule.holds(self)]
        if failed:
            raise broken(failed)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return with_rules(handler.resolve_ref_schema(handler(schema)), cls.rules)

    def dump(self) -> dict[str, Any]:
        """The object as JSON data in the form the API server stores: camelCase, no nulls, times as RFC 3339."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rfc3339(moment: datetime) -> str:
    """UTC with whole seconds, as metav1.Time writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""A moment, as metav1.Time: on the wire RFC 3339 in UTC with whole seconds."""
