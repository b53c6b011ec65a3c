"""The JSON answers of the admin port: wire models, and errors of one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.responses import JSONResponse, Response

from mcp_connections.api.field_errors import FieldError
from mcp_connections.mounts.spec import WireModel


class WrongField(WireModel):
    """What is wrong with one field of a request body."""

    field: str
    """Its path: ``mounts[0].server.http.url``. Empty for the body as a whole."""
    message: str


class Problem(WireModel):
    """The body of every error answer."""

    reason: str
    message: str
    fields: tuple[WrongField, ...] = ()


def answer(model: WireModel, status: int = 200) -> Response:
    """``model`` in its wire form."""
    return Response(model.model_dump_json(by_alias=True), status, media_type="application/json")


def problem(
    status: int,
    reason: str,
    message: str,
    *,
    fields: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error answer. ``message`` says what happened and what to do next."""
    body = Problem(
        reason=reason, message=message, fields=tuple(WrongField(field=one.field, message=one.message) for one in fields)
    )
    return JSONResponse(body.model_dump(by_alias=True), status, dict(headers or {}))
