"""JSON Schema in, structural schema out; what has no structural form is refused, never dropped."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, JsonValue, create_model

from mcp_connections.api.structural import NotStructural, structural


class Inner(BaseModel):
    """An inner object."""

    number: int = 3


class Recursive(BaseModel):
    child: Recursive | None = None


def member(annotation: Any, **field: Any) -> dict[str, Any]:
    model = create_model("Model", member=Annotated[annotation, Field(**field)])
    result: dict[str, Any] = structural(model.model_json_schema())["properties"]["member"]
    return result


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, {"type": "integer", "format": "int64"}),
        (str | None, {"type": "string"}),
        (Literal["A"], {"type": "string", "enum": ["A"]}),
        (Literal["A", "B"], {"type": "string", "enum": ["A", "B"]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (dict[str, JsonValue], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            Inner | None,
            {
                "description": "An inner object.",
                "type": "object",
                "properties": {"number": {"type": "integer", "format": "int64", "default": 3}},
            },
        ),
    ],
)
def test_converted(annotation: Any, expected: dict[str, Any]) -> None:
    assert member(annotation) == expected


def test_a_fields_description_wins_over_its_types() -> None:
    assert member(Inner | None, description="The field's  own\ntext, ``so``.")["description"] == (
        "The field's own text, `so`."
    )


@pytest.mark.parametrize(
    ("annotation", "default"), [(Inner, Inner()), (list[int], []), (dict[str, int], {}), (str | None, None), (str, "")]
)
def test_a_default_that_says_nothing_goes(annotation: Any, default: Any) -> None:
    assert "default" not in member(annotation, default=default)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | str, "member: anyOf has no structural form"),
        (tuple[int, str], "member: prefixItems has no structural form"),
        (Recursive, r"member\.child: Recursive contains itself"),
        (Any, "member: has no type"),
        (bytes, "member: the API server does not know the format binary"),
        (dict[Annotated[str, Field(pattern="^a$")], int], "member: patternProperties has no structural form"),
    ],
)
def test_refused(annotation: Any, message: str) -> None:
    with pytest.raises(NotStructural, match=message):
        member(annotation)
