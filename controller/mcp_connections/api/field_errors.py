"""Pydantic's errors in the words of the resource API: a path as users write it, and what the field must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


class FieldError(NamedTuple):
    """What is wrong with one field. ``field`` is its path; ``message`` reads on after it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def field_errors(model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    """One entry per thing that is wrong, in the order of the model's fields. Never holds a field's value."""
    found: list[FieldError] = []
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"])
        if detail["type"] == "rules":
            found.extend(FieldError(join(path, member), text) for member, text in detail["ctx"]["failures"])
        else:
            found.append(FieldError(path, _message(model, detail)))
    return found


def shape_errors(model: type[BaseModel], data: object, path: str = "") -> Iterator[FieldError]:
    """What rules say of which members are there, anywhere within ``data``. Validation comes to the rules of an object
    only once its members are right, and so would tell of one fault after the other."""
    if isinstance(data, Mapping):
        members = _members(model)
        misspelled = not data.keys() <= members.keys()
        for rule in getattr(model, "rules", ()):
            if rule.shape is not None and not rule.shape(data, misspelled):
                yield FieldError(join(path, rule.field), rule.message)
        for name, annotation in members.items():
            if (inner := _model_in(annotation)) is not None:
                yield from shape_errors(inner, data.get(name), join(path, name))
    elif isinstance(data, list | tuple):
        for place, item in enumerate(data):
            yield from shape_errors(model, item, join(path, f"[{place}]"))


def type_name(value: object) -> str:
    """What a value is, in the words of JSON."""
    for kinds, name in _TYPE_NAMES:
        if isinstance(value, kinds):
            return name
    return f"a {type(value).__name__}"


def join(path: str, member: str) -> str:
    """The path of a member; an index is written ``[0]``."""
    return f"{path}.{member}" if path and member and not member.startswith("[") else f"{path}{member}"


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


def _wants(what: str) -> Callable[[ErrorDetails], str]:
    return lambda detail: f"must be {what}, is {type_name(detail['input'])}"


def _string(detail: ErrorDetails) -> str:
    quotes = " (put it in quotes)" if isinstance(detail["input"], bool | int | float) else ""
    return f"must be a string, is {type_name(detail['input'])}{quotes}"


def _bound(text: str) -> Callable[[ErrorDetails], str]:
    return lambda detail: text.format(**detail["ctx"])


def _enum(detail: ErrorDetails) -> str:
    return f"must be {detail['ctx']['expected'].replace(chr(39), '')}"


_MESSAGES: dict[str, Callable[[ErrorDetails], str]] = {
    "missing": lambda _: "must be set",
    "string_type": _string,
    "bool_type": _wants("true or false"),
    "int_type": _wants("a whole number"),
    "tuple_type": _wants("a list"),
    "dict_type": _wants("an object"),
    "model_type": _wants("an object"),
    "model_attributes_type": _wants("an object"),
    "invalid-json-value": _wants("plain JSON data"),
    "literal_error": _enum,
    "greater_than_equal": _bound("must be at least {ge}"),
    "less_than_equal": _bound("must be at most {le}"),
    "string_too_long": _bound("must be at most {max_length} characters long"),
    "string_too_short": lambda _: "must not be empty",
    "too_long": _bound("must have at most {max_length} entries"),
    "too_short": lambda _: "must not be empty",
    "string_pattern_mismatch": _bound("must match {pattern}"),
}


def _message(model: type[BaseModel], detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return _unknown(model, detail["loc"])
    message = _MESSAGES.get(detail["type"])
    return message(detail) if message else f"must be valid: {detail['msg']}"


def _path(location: Iterable[int | str]) -> str:
    path = ""
    for step in location:
        if step != "[key]":
            path = join(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def _unknown(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    known = _members(_model_at(model, location[:-1]))
    name = str(location[-1])
    same = [member for member in known if member.lower() == name.lower()]
    guess = same or get_close_matches(name, known, n=1)
    if guess:
        return f"is not a known field, did you mean {guess[0]}?"
    return f"is not a known field, must be one of {', '.join(known)}" if known else "must not be set: has no fields"


def _members(model: type[BaseModel] | None) -> dict[str, Any]:
    """Annotation by the name on the wire."""
    fields = model.model_fields.items() if model else ()
    return {field.alias or name: field.annotation for name, field in fields}


def _model_at(model: type[BaseModel], location: Iterable[int | str]) -> type[BaseModel] | None:
    found: type[BaseModel] | None = model
    for step in location:
        if isinstance(step, str):
            found = _model_in(_members(found).get(step))
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation holds, within Optional, Annotated and tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType, tuple):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None
