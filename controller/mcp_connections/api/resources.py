"""Compute resources of a container, in the shape of core/v1 ResourceRequirements."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mcp_connections.api.model import ApiModel

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""As the API server writes it for resource.Quantity in its own generated schemas."""

_QUANTITY = re.compile(QUANTITY, re.ASCII)
_MESSAGE = "must be a quantity such as 500m, 2 or 1Gi"


class _QuantitySchema:
    """A whole number or a string on the wire, always a string in Python."""

    @staticmethod
    def _parse(value: Any) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or len(text) > 64 or not _QUANTITY.fullmatch(text):
            raise PydanticCustomError("rules", "{text}", {"text": _MESSAGE, "failures": [("", _MESSAGE)]})
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._parse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY,
            "maxLength": 64,
        }


Quantity = Annotated[str, _QuantitySchema()]

Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]


class ResourceRequirements(ApiModel):
    """Compute resources of a container."""

    requests: Quantities = Field(default_factory=dict)
    """What the container is guaranteed, by resource name, for example ``cpu: 100m``."""
    limits: Quantities = Field(default_factory=dict)
    """What the container may use at most, by resource name, for example ``memory: 256Mi``."""
