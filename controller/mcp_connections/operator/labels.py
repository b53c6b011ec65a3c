"""Names and labels of the objects that make up one proxy's workload."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from mcp_connections.api.proxy import McpProxy

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "mcp-connections-operator"
PROXY_ANNOTATION = "mcp-connections.io/proxy"
"""Name of the McpProxy that an object belongs to, in full: a label may be too short for it."""
COMPONENT = "mcp-proxy"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PREFIX = "mcp-proxy-"


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
    return selector_labels(proxy.metadata.name) | {
        MANAGED_BY: MANAGER,
        "app.kubernetes.io/part-of": "mcp-connections",
    }


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


def owner_reference(proxy: McpProxy) -> dict[str, object]:
    """Makes an object go when the McpProxy goes."""
    return {
        "apiVersion": proxy.api_version,
        "kind": proxy.kind,
        "name": proxy.metadata.name,
        "uid": proxy.metadata.uid,
        "controller": True,
    }


def _short(name: str, limit: int) -> str:
    if len(name) <= limit and _LABEL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].replace('.', '-').rstrip('-')}-{digest}"
