"""The Deployment, Service and ServiceAccount of one proxy, from its McpProxy alone.

Nothing here depends on the connections: a change of what is mounted must not replace a pod.
"""

from __future__ import annotations

import math
from typing import Any

from mcp_connections.api.proxy import McpProxy
from mcp_connections.operator.hardening import TMP_MOUNT, TMP_VOLUME, hardened_container, hardened_pod, service_account
from mcp_connections.operator.labels import (
    object_annotations,
    object_labels,
    owner_reference,
    selector_labels,
    workload_name,
)
from mcp_connections.operator.merge import merged
from mcp_connections.operator.mount_secrets import MAX_PARTS, TOKEN_KEY, admin_secret_name, part_name

MOUNTS_PATH = "/etc/mcp-connections/mounts"
ADMIN_PATH = "/etc/mcp-connections/admin"
PORT = 8000
ADMIN_PORT = 8001
LINGER_SECONDS = 3
"""Whole seconds that a pod goes on as before once it is to end."""


def workload(proxy: McpProxy, default_image: str) -> list[dict[str, Any]]:
    """The bodies to apply, in order: what a pod needs comes before the Deployment."""
    return [service_account(_metadata(proxy)), _service(proxy), _deployment(proxy, default_image)]


def endpoint(proxy: McpProxy) -> str:
    """URL of the MCP endpoint within the cluster."""
    host = f"{workload_name(proxy.metadata.name)}.{proxy.metadata.namespace}.svc"
    return f"http://{host}:{proxy.spec.service.port}/mcp"


def _metadata(proxy: McpProxy, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "name": workload_name(proxy.metadata.name),
        "namespace": proxy.metadata.namespace,
        "labels": object_labels(proxy),
        "annotations": (annotations or {}) | object_annotations(proxy),
        "ownerReferences": [owner_reference(proxy)],
    }


def _service(proxy: McpProxy) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(proxy, proxy.spec.service.annotations),
        "spec": {
            "type": proxy.spec.service.type,
            "selector": selector_labels(proxy.metadata.name),
            "ports": [
                {"name": "http", "port": proxy.spec.service.port, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }


def _deployment(proxy: McpProxy, default_image: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector_labels(proxy.metadata.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": _pod_template(proxy, default_image),
    }
    # Left out, the number of replicas belongs to whoever sets it: an autoscaler, or kubectl scale.
    if proxy.spec.replicas is not None:
        spec["replicas"] = proxy.spec.replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(proxy), "spec": spec}


def _pod_template(proxy: McpProxy, default_image: str) -> dict[str, Any]:
    given = proxy.spec.pod_template
    return {
        "metadata": {
            "labels": given.metadata.labels | object_labels(proxy),
            "annotations": given.metadata.annotations | object_annotations(proxy),
        },
        "spec": merged(_pod_spec(proxy, default_image), given.spec),
    }


def _pod_spec(proxy: McpProxy, default_image: str) -> dict[str, Any]:
    name = proxy.metadata.name
    return hardened_pod(workload_name(name), math.ceil(proxy.spec.drain_timeout.seconds)) | {
        "containers": [_container(proxy, default_image)],
        "volumes": [
            {
                "name": "mounts",
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"secret": {"name": part_name(name, part)} | ({"optional": True} if part else {})}
                        for part in range(MAX_PARTS)
                    ],
                },
            },
            {"name": "admin", "secret": {"secretName": admin_secret_name(name), "defaultMode": 0o440}},
            TMP_VOLUME,
        ],
    }


def _container(proxy: McpProxy, default_image: str) -> dict[str, Any]:
    return hardened_container("admin", proxy.spec.resources) | {
        "name": "proxy",
        "image": proxy.spec.image or default_image,
        "command": ["mcp-connections", "proxy"],
        "args": [
            *("--mounts", MOUNTS_PATH),
            *("--host", "0.0.0.0"),
            *("--port", str(PORT)),
            *("--admin-port", str(ADMIN_PORT)),
            *("--admin-token-file", f"{ADMIN_PATH}/{TOKEN_KEY}"),
            # Whoever may apply an McpProxy decides who may use it, and may change that while the pods run.
            "--allow-unauthenticated",
        ],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        # Requests go on coming until every node knows that the pod is leaving (KEP-3960).
        "lifecycle": {"preStop": {"sleep": {"seconds": LINGER_SECONDS}}},
        "ports": [
            {"name": "http", "containerPort": PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
        ],
        "volumeMounts": [
            {"name": "mounts", "mountPath": MOUNTS_PATH, "readOnly": True},
            {"name": "admin", "mountPath": ADMIN_PATH, "readOnly": True},
            TMP_MOUNT,
        ],
    }
