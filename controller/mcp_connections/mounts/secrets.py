"""References to Secrets and ConfigMaps: which ones a resource makes, and in which fields.

They are found by walking the models, not from a list of fields: a field that comes later cannot be forgotten, neither
when an operator reads what is referenced nor when a fingerprint digests it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.secret_refs import ConfigMapKeyRef, SecretKeyRef

RefKind = Literal["Secret", "ConfigMap"]

SecretData = Mapping[tuple[str, str, str], Mapping[str, bytes]]
"""Data by (kind, namespace, name). An object that does not exist is absent."""


@dataclass(frozen=True, kw_only=True, order=True)
class SecretRef:
    """One key of a Secret or ConfigMap."""

    kind: RefKind = "Secret"
    namespace: str
    name: str
    key: str

    @property
    def owner(self) -> tuple[str, str, str]:
        """The object, as SecretData names it."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class FieldRef:
    """A reference, and the path of the field that makes it."""

    field: str
    ref: SecretRef


def references(resource: McpConnection | McpProxy) -> Iterator[FieldRef]:
    """Every reference in the spec, in the order of its fields."""
    yield from _walk(resource.spec, "spec", resource.metadata.namespace)


def secret_refs(connection: McpConnection) -> set[SecretRef]:
    """Every key of a Secret or ConfigMap that the connection refers to."""
    return {each.ref for each in references(connection)}


def proxy_secret_refs(proxy: McpProxy) -> set[SecretRef]:
    """Every key of a Secret that the proxy refers to."""
    return {each.ref for each in references(proxy)}


def _walk(value: object, field: str, namespace: str) -> Iterator[FieldRef]:
    match value:
        case SecretKeyRef(name=name, key=key):
            yield FieldRef(field=field, ref=SecretRef(kind="Secret", namespace=namespace, name=name, key=key))
        case ConfigMapKeyRef(name=name, key=key):
            yield FieldRef(field=field, ref=SecretRef(kind="ConfigMap", namespace=namespace, name=name, key=key))
        case BaseModel():
            for name, info in type(value).model_fields.items():
                yield from _walk(getattr(value, name), f"{field}.{info.alias or name}", namespace)
        case tuple():
            for index, item in enumerate(value):
                yield from _walk(item, f"{field}[{index}]", namespace)
