"""Manifests to models, with errors a user can act on: ``spec.transport.http.url: must be …``.

Folder manifests are read strictly: an unknown field is an error. The operator reads leniently, because the API
server has already pruned what it does not know and a newer CRD may know more than this version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.meta import API_VERSION
from mcp_connections.api.proxy import McpProxy

ResourceT = TypeVar("ResourceT", McpConnection, McpProxy)

_FREE_FORM = frozenset({("spec", "metadata"), ("spec", "podTemplate", "spec")})
_SERVER_METADATA = frozenset(
    {"deletionGracePeriodSeconds", "finalizers", "generateName", "managedFields", "ownerReferences", "selfLink"}
)
"""Members of ObjectMeta that are not read: dropped, so that output of ``kubectl get -o yaml`` is a valid manifest."""


class FieldError(NamedTuple):
    """What is wrong with one field. ``field`` is its path; ``message`` reads on after it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidManifest(ValueError):
    """A manifest that is not a valid resource. ``errors`` is never empty."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


def parse(obj: object, *, strict: bool = True) -> McpConnection | McpProxy:
    """The resource that a manifest describes, whichever kind it is. Raises InvalidManifest."""
    if not isinstance(obj, Mapping):
        text = f"must be an object with apiVersion, kind and metadata, is {_name_type(obj)}"
        raise InvalidManifest([FieldError("", text)])
    kind = obj.get("kind")
    if kind == "McpConnection":
        return parse_connection(obj, strict=strict)
    if kind == "McpProxy":
        return parse_proxy(obj, strict=strict)
    raise InvalidManifest([FieldError("kind", f"must be McpConnection or McpProxy, is {kind!r}")])


def parse_connection(obj: Mapping[str, Any], *, strict: bool = True) -> McpConnection:
    """The McpConnection that a manifest describes. Raises InvalidManifest. ``strict=False`` ignores unknown fields."""
    return _parse(McpConnection, obj, strict)


def parse_proxy(obj: Mapping[str, Any], *, strict: bool = True) -> McpProxy:
    """The McpProxy that a manifest describes. Raises InvalidManifest. ``strict=False`` ignores unknown fields."""
    return _parse(McpProxy, obj, strict)


def _parse(model: type[ResourceT], obj: Mapping[str, Any], strict: bool) -> ResourceT:
    errors = [
        FieldError(field, f"must be {wanted}, is {obj.get(field)!r}" if field in obj else f"must be set to {wanted}")
        for field, wanted in (("apiVersion", API_VERSION), ("kind", model.__name__))
        if obj.get(field) != wanted
    ]
    if errors:
        raise InvalidManifest(errors)
    data = _without_nulls(obj, ())
    metadata = data.get("metadata")
    if isinstance(metadata, dict):
        data["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    status = data.pop("status", None)
    try:
        resource = model.model_validate(data, extra="forbid" if strict else "ignore")
    except ValidationError as error:
        raise InvalidManifest(_field_errors(model, error)) from None
    return resource.model_copy(update={"status": _status(model, status)}) if status else resource


def _status(model: type[ResourceT], status: object) -> Any:
    """What an older or newer operator wrote, as far as it is understood: status never makes a resource invalid."""
    status_model = model.model_fields["status"].annotation
    assert isinstance(status_model, type) and issubclass(status_model, BaseModel)
    try:
        return status_model.model_validate(status, extra="ignore")
    except ValidationError:
        return status_model()


def _without_nulls(value: Any, path: tuple[str, ...]) -> Any:
    """As the API server does: a null member is an absent one, except within free-form data."""
    if path in _FREE_FORM:
        return value
    if isinstance(value, Mapping):
        return {key: _without_nulls(item, (*path, str(key))) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item, (*path, "[]")) for item in value]
    return value


def _field_errors(model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    found: list[FieldError] = []
    for detail in error.errors(include_url=False):
        failures = detail.get("ctx", {}).get("failures") if detail["type"] == "rules" else None
        path = _path(detail["loc"])
        if failures:
            found.extend(FieldError(_join(path, member), text) for member, text in failures)
        else:
            found.append(FieldError(path, _message(model, detail)))
    return found


def _path(location: Iterable[int | str]) -> str:
    path = ""
    for step in location:
        if step == "[key]":
            continue
        path = _join(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def _join(path: str, member: str) -> str:
    return f"{path}.{member}" if path and member and not member.startswith("[") else f"{path}{member}"


def _message(model: type[BaseModel], detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return "must be set"
        case "extra_forbidden":
            return _unknown(model, detail["loc"])
        case "string_type":
            return f"must be a string, is {_name_type(detail['input'])}{_quote_hint(detail['input'])}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, is {_name_type(detail['input'])}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"must be a whole number, is {_name_type(detail['input'])}"
        case "tuple_type" | "list_type":
            return f"must be a list, is {_name_type(detail['input'])}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"must be an object, is {_name_type(detail['input'])}"
        case "literal_error":
            return f"must be one of {str(context['expected']).replace(chr(39), '')}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "string_too_long":
            return f"must be at most {context['max_length']} characters long"
        case "string_too_short":
            return "must not be empty"
        case "too_long":
            return f"must have at most {context['max_length']} entries, has {context['actual_length']}"
        case "too_short":
            return "must not be empty"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}"
        case _:
            return f"must be valid: {detail['msg']}"


def _unknown(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    owner = _model_at(model, location[:-1])
    known = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
    close = get_close_matches(str(location[-1]), known, n=1, cutoff=0.6)
    lowered = {name.lower(): name for name in known}
    guess = lowered.get(str(location[-1]).lower()) or (close[0] if close else None)
    if guess:
        return f"is not a known field, did you mean {guess}?"
    return f"is not a known field, must be one of {', '.join(known)}" if known else "is not a known field"


def _model_at(model: type[BaseModel], location: Iterable[int | str]) -> type[BaseModel] | None:
    found: type[BaseModel] | None = model
    for step in location:
        if isinstance(step, int):
            continue
        if found is None:
            return None
        fields = {field.alias or name: field for name, field in found.model_fields.items()}
        found = _model_in(fields[step].annotation) if step in fields else None
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation holds, within Optional, Annotated and tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType, tuple):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None


def _name_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _quote_hint(value: object) -> str:
    return " (put it in quotes)" if isinstance(value, bool | int | float) else ""
