"""Manifests to models, with errors a user can act on: ``spec.transport.http.url: must be …``.

Folder manifests are read strictly: an unknown field is an error. The operator reads leniently, because the API
server has already pruned what it does not know and a newer CRD may know more than this version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.connection_status import McpConnectionStatus
from mcp_connections.api.field_errors import FieldError as FieldError
from mcp_connections.api.field_errors import field_errors, shape_errors, type_name
from mcp_connections.api.meta import API_VERSION
from mcp_connections.api.proxy import McpProxy, McpProxyStatus

ResourceT = TypeVar("ResourceT", McpConnection, McpProxy)
StatusT = TypeVar("StatusT", McpConnectionStatus, McpProxyStatus)

_SERVER_METADATA = frozenset(
    {"deletionGracePeriodSeconds", "finalizers", "generateName", "managedFields", "ownerReferences", "selfLink"}
)
"""Members of ObjectMeta that are not read: dropped, so that output of ``kubectl get -o yaml`` is a valid manifest."""


class InvalidManifest(ValueError):
    """A manifest that is not a valid resource. ``errors`` is never empty."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


def parse(obj: object, *, strict: bool = True) -> McpConnection | McpProxy:
    """The resource that a manifest describes, whichever kind it is. Raises InvalidManifest."""
    kind = obj.get("kind") if isinstance(obj, Mapping) else None
    if isinstance(obj, Mapping) and kind == "McpConnection":
        return parse_connection(obj, strict=strict)
    if isinstance(obj, Mapping) and kind == "McpProxy":
        return parse_proxy(obj, strict=strict)
    if isinstance(obj, Mapping):
        raise InvalidManifest([FieldError("kind", f"must be McpConnection or McpProxy{_is(obj, 'kind')}")])
    text = f"must be an object with apiVersion, kind, metadata and spec, is {type_name(obj)}"
    raise InvalidManifest([FieldError("", text)])


def parse_connection(obj: Mapping[str, Any], *, strict: bool = True) -> McpConnection:
    """The McpConnection that a manifest describes. Raises InvalidManifest. ``strict=False`` ignores unknown fields."""
    resource, status = _parse(McpConnection, obj, strict)
    return resource.model_copy(update={"status": _status(McpConnectionStatus, status)})


def parse_proxy(obj: Mapping[str, Any], *, strict: bool = True) -> McpProxy:
    """The McpProxy that a manifest describes. Raises InvalidManifest. ``strict=False`` ignores unknown fields."""
    resource, status = _parse(McpProxy, obj, strict)
    return resource.model_copy(update={"status": _status(McpProxyStatus, status)})


def _parse(model: type[ResourceT], obj: Mapping[str, Any], strict: bool) -> tuple[ResourceT, object]:
    wrong = [
        FieldError(field, f"must be {wanted}{_is(obj, field)}")
        for field, wanted in (("apiVersion", API_VERSION), ("kind", model.__name__))
        if obj.get(field) != wanted
    ]
    if wrong:
        raise InvalidManifest(wrong)
    data = dict(obj)
    metadata = data.get("metadata")
    if isinstance(metadata, Mapping):
        data["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    status = data.pop("status", None)
    try:
        return model.model_validate(data, extra="forbid" if strict else "ignore", by_alias=True, by_name=False), status
    except ValidationError as error:
        found = field_errors(model, error)
        found += [each for each in shape_errors(model, data) if each not in found]
        raise InvalidManifest(found) from None


def _status(model: type[StatusT], status: object) -> StatusT:
    """What an older or newer operator wrote, as far as it is understood: status never makes a resource invalid."""
    try:
        return model.model_validate(status or {}, extra="ignore", by_alias=True, by_name=False)
    except ValidationError:
        return model()


def _is(obj: Mapping[str, Any], field: str) -> str:
    value = obj.get(field)
    return f", is {value}" if isinstance(value, str) else f", is {type_name(value)}" if field in obj else ", is not set"
