"""References to keys of Secrets and ConfigMaps in the connection's own namespace, never to their values."""

from __future__ import annotations

from typing import ClassVar

from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule, one_of
from mcp_connections.api.strings import DataKey, ObjectName


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: ObjectName
    """Name of the Secret."""
    key: DataKey
    """Key within the Secret's data."""


class ConfigMapKeyRef(ApiModel):
    """One key of a ConfigMap in the same namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: DataKey
    """Key within the ConfigMap's data."""


class ValueSource(ApiModel):
    """Where a value comes from."""

    secret_key_ref: SecretKeyRef
    """The key of a Secret that holds the value. Surrounding whitespace is removed. A changed Secret takes effect by
    itself."""


class CaBundleRef(ApiModel):
    """PEM certificates of the authorities to trust. Exactly one of its members is set."""

    config_map_key_ref: ConfigMapKeyRef | None = None
    """The key of a ConfigMap that holds the certificates."""
    secret_key_ref: SecretKeyRef | None = None
    """The key of a Secret that holds the certificates."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("configMapKeyRef", "secretKeyRef"),)
