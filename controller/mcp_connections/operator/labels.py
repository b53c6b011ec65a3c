"""Names and labels of the objects that the operator makes: those of a proxy, and those of one connection's bridge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "mcp-connections-operator"
PROXY_ANNOTATION = "mcp-connections.io/proxy"
"""Name of the McpProxy that an object belongs to, in full: a label may be too short for it."""
CONNECTION_ANNOTATION = "mcp-connections.io/connection"
"""Name of the McpConnection that an object belongs to."""
COMPONENT = "mcp-proxy"
BRIDGE = "mcp-bridge"

_OURS = {MANAGED_BY: MANAGER, "app.kubernetes.io/part-of": "mcp-connections"}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PREFIX = "mcp-proxy-"
_BRIDGE_PREFIX = "mcp-bridge-"
BRIDGES_SELECTOR = f"app.kubernetes.io/name={BRIDGE},{MANAGED_BY}={MANAGER}"
"""Label selector of the objects and pods of all bridges."""


def workload_name(proxy: str) -> str:
    """Name of the Deployment, Service and ServiceAccount of the McpProxy named ``proxy``.

    The prefix keeps it apart from what users name themselves. A Service's name must be a DNS label of at most 63
    characters, an McpProxy's may be longer and hold dots: such a name is cut, and a hash keeps it unique. Room is left
    for the suffixes of Secrets and for those that Deployments give their pods.
    """
    return _PREFIX + _short(proxy, 40)


def selector_labels(proxy: str) -> dict[str, str]:
    """What the Deployment and Service select pods by. Never changes: a Deployment's selector is immutable."""
    return {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/instance": _short(proxy, 63)}


def object_labels(proxy: McpProxy) -> dict[str, str]:
    """Labels of every object of the workload."""
    return selector_labels(proxy.metadata.name) | _OURS


def object_annotations(proxy: McpProxy) -> dict[str, str]:
    """Annotations of every object of the workload."""
    return {PROXY_ANNOTATION: proxy.metadata.name}


def owner_of(obj: Mapping[str, Any]) -> str | None:
    """Name of the McpProxy that an object, as JSON, belongs to. None for an object that is not ours."""
    metadata = obj.get("metadata") or {}
    if (metadata.get("labels") or {}).get(MANAGED_BY) != MANAGER:
        return None
    name: str | None = (metadata.get("annotations") or {}).get(PROXY_ANNOTATION)
    return name


def selector(proxy: str) -> str:
    """Label selector of the objects and pods of the McpProxy named ``proxy``."""
    return ",".join(f"{key}={value}" for key, value in (selector_labels(proxy) | {MANAGED_BY: MANAGER}).items())


def owner_reference(owner: McpProxy | McpConnection) -> dict[str, object]:
    """Makes an object go when its owner goes."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }


def bridge_name(connection: str) -> str:
    """Name of the objects that run the command of the McpConnection named ``connection``."""
    return _BRIDGE_PREFIX + _short(connection, 40)


def bridge_selector_labels(connection: str) -> dict[str, str]:
    """What the Deployment and Service of a bridge select pods by. Never changes."""
    return {"app.kubernetes.io/name": BRIDGE, "app.kubernetes.io/instance": _short(connection, 63)}


def bridge_labels(connection: str) -> dict[str, str]:
    """Labels of every object of a bridge."""
    return bridge_selector_labels(connection) | _OURS


def bridge_annotations(connection: McpConnection) -> dict[str, str]:
    """Annotations of every object of a bridge."""
    return {PROXY_ANNOTATION: connection.spec.proxy_ref.name, CONNECTION_ANNOTATION: connection.metadata.name}


def connection_of(obj: Mapping[str, Any]) -> str | None:
    """Name of the McpConnection whose bridge an object, as JSON, is part of. None for any other object."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if (labels.get(MANAGED_BY), labels.get("app.kubernetes.io/name")) != (MANAGER, BRIDGE):
        return None
    name: str | None = (metadata.get("annotations") or {}).get(CONNECTION_ANNOTATION)
    return name


def _short(name: str, limit: int) -> str:
    if len(name) <= limit and _LABEL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].replace('.', '-').rstrip('-')}-{digest}"
