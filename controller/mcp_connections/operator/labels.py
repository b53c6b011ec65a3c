"""Names and labels of the objects that make up one proxy's workload."""

from __future__ import annotations

import hashlib
import re

from mcp_connections.api.proxy import McpProxy

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "mcp-connections-operator"
PROXY_LABEL = "mcp-connections.io/proxy"
"""The McpProxy that an object belongs to, by ``proxy_label``."""
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


def proxy_label(proxy: str) -> str:
    """``proxy`` as the value of a label, at most 63 characters."""
    return _short(proxy, 63)


def selector_labels(proxy: str) -> dict[str, str]:
    """What the Deployment and Service select pods by. Never changes: a Deployment's selector is immutable."""
    return {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/instance": proxy_label(proxy)}


def object_labels(proxy: McpProxy) -> dict[str, str]:
    """Labels of every object of the workload."""
    return selector_labels(proxy.metadata.name) | {
        MANAGED_BY: MANAGER,
        "app.kubernetes.io/part-of": "mcp-connections",
        PROXY_LABEL: proxy_label(proxy.metadata.name),
    }


def owner_reference(proxy: McpProxy) -> dict[str, object]:
    """Makes an object go when the McpProxy goes."""
    return {
        "apiVersion": proxy.api_version,
        "kind": proxy.kind,
        "name": proxy.metadata.name,
        "uid": proxy.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _short(name: str, limit: int) -> str:
    if len(name) <= limit and _LABEL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].replace('.', '-').rstrip('-')}-{digest}"
