"""The objects that run the command of one stdio connection: a pod of its own, which only the proxy's pods may reach.

The pod holds what this one connection was given and nothing of any other: no Kubernetes credential, no token but its
own. Values of Secrets get there by reference, so that no object that the operator writes holds one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from dataclasses import dataclass, field
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.transport import StdioTransport
from mcp_connections.operator.hardening import TMP_MOUNT, TMP_VOLUME, hardened_container, hardened_pod, service_account
from mcp_connections.operator.labels import (
    bridge_annotations,
    bridge_labels,
    bridge_name,
    bridge_selector_labels,
    owner_reference,
    selector_labels,
)
from mcp_connections.operator.mount_secrets import TOKEN_KEY

PORT = 8000
TOKEN_PATH = "/etc/mcp-connections/bridge"  # noqa: S105  (a path)
HOME = "/tmp"  # noqa: S108  (within the container)
SECRETS_ANNOTATION = "mcp-connections.io/secrets"
"""Changes with the values of the referenced Secrets, so that the pod is replaced."""
CONTAINER = "bridge"
_PLACEMENT = ("imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName", "runtimeClassName")
"""What holds for the proxy's pods and has nothing to do with what they run."""


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """What the objects are made from."""

    connection: McpConnection
    proxy: McpProxy
    token: str = field(repr=False)
    secret_digest: str = field(repr=False)
    """Over the values of the referenced Secrets."""
    default_image: str

    @property
    def name(self) -> str:
        """Name of the objects."""
        return bridge_name(self.connection.metadata.name)

    @property
    def stdio(self) -> StdioTransport:
        """The transport."""
        stdio = self.connection.spec.transport.stdio
        assert stdio is not None, "only stdio connections have a bridge"
        return stdio


def bridge_url(connection: McpConnection) -> str:
    """URL of the bridge within the cluster."""
    return f"http://{bridge_name(connection.metadata.name)}.{connection.metadata.namespace}.svc:{PORT}/mcp"


def token_secret_name(connection: str) -> str:
    """Name of the Secret that holds the token of a bridge."""
    return f"{bridge_name(connection)}-token"


def bridge_workload(bridge: Bridge) -> list[dict[str, Any]]:
    """The bodies to apply, in order: what guards and feeds the pod comes before the Deployment."""
    return [
        _token_secret(bridge),
        service_account(_metadata(bridge)),
        _network_policy(bridge),
        _service(bridge),
        _deployment(bridge),
    ]


def _metadata(bridge: Bridge, name: str | None = None) -> dict[str, Any]:
    metadata = bridge.connection.metadata
    return {
        "name": name or bridge.name,
        "namespace": metadata.namespace,
        "labels": bridge_labels(metadata.name),
        "annotations": bridge_annotations(bridge.connection),
        "ownerReferences": [owner_reference(bridge.connection)],
    }


def _token_secret(bridge: Bridge) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(bridge, token_secret_name(bridge.connection.metadata.name)),
        "type": "Opaque",
        "data": {TOKEN_KEY: base64.b64encode(bridge.token.encode()).decode()},
    }


def _network_policy(bridge: Bridge) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(bridge),
        "spec": {
            "podSelector": {"matchLabels": bridge_selector_labels(bridge.connection.metadata.name)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": selector_labels(bridge.proxy.metadata.name)}}],
                    "ports": [{"port": PORT, "protocol": "TCP"}],
                }
            ],
        },
    }


def _service(bridge: Bridge) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(bridge),
        "spec": {
            "type": "ClusterIP",
            "selector": bridge_selector_labels(bridge.connection.metadata.name),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _deployment(bridge: Bridge) -> dict[str, Any]:
    name = bridge.connection.metadata.name
    # Keyed with the token: whoever may read annotations must not be able to try out values.
    digest = hmac.new(bridge.token.encode(), bridge.secret_digest.encode(), hashlib.sha256).hexdigest()
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(bridge),
        "spec": {
            # Sessions live in the pod: two of them would not know each other's.
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": bridge_selector_labels(name)},
            "template": {
                "metadata": {
                    "labels": bridge_labels(name),
                    "annotations": bridge_annotations(bridge.connection) | {SECRETS_ANNOTATION: digest},
                },
                "spec": _pod_spec(bridge),
            },
        },
    }


def _pod_spec(bridge: Bridge) -> dict[str, Any]:
    given = bridge.proxy.spec.pod_template.spec
    placement = {name: given[name] for name in _PLACEMENT if name in given}
    hardened = hardened_pod(bridge.name, _drain_seconds(bridge))
    token = {"secretName": token_secret_name(bridge.connection.metadata.name), "defaultMode": 0o440}
    return {
        **placement,
        **hardened,
        # What the command leaves behind is reaped by the pod's first process, which the bridge is not.
        "shareProcessNamespace": True,
        "containers": [_container(bridge)],
        "volumes": [{"name": "token", "secret": token}, TMP_VOLUME],
    }


def _container(bridge: Bridge) -> dict[str, Any]:
    stdio = bridge.stdio
    return hardened_container("http", stdio.resources) | {
        "name": CONTAINER,
        "image": stdio.image or bridge.proxy.spec.image or bridge.default_image,
        "command": ["mcp-connections", "bridge"],
        "args": _arguments(bridge),
        "env": _environment(stdio),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "token", "mountPath": TOKEN_PATH, "readOnly": True},
            TMP_MOUNT,
        ],
    }


def _arguments(bridge: Bridge) -> list[str]:
    stdio, metadata = bridge.stdio, bridge.connection.metadata
    secret = [variable.name for variable in stdio.env if variable.value_from is not None]
    return [
        *("--host", "0.0.0.0"),
        *("--port", str(PORT)),
        *("--token-file", f"{TOKEN_PATH}/{TOKEN_KEY}"),
        *("--connection", f"{metadata.namespace}/{metadata.name}"),
        *("--drain", str(_drain_seconds(bridge))),
        *(("--working-dir", _literal(stdio.working_dir)) if stdio.working_dir is not None else ()),
        *(argument for name in secret for argument in ("--secret", name)),
        "--",
        *map(_literal, stdio.command),
    ]


def _environment(stdio: StdioTransport) -> list[dict[str, Any]]:
    # The user has no home in any image, and the root file system is read-only: caches have to go somewhere.
    given = {variable.name for variable in stdio.env}
    variables: list[dict[str, Any]] = [] if "HOME" in given else [{"name": "HOME", "value": HOME}]
    for variable in stdio.env:
        if variable.value_from is None:
            variables.append({"name": variable.name, "value": _literal(variable.value or "")})
        else:
            ref = variable.value_from.secret_key_ref
            source = {"secretKeyRef": {"name": ref.name, "key": ref.key}}
            variables.append({"name": variable.name, "valueFrom": source})
    return variables


def _literal(text: str) -> str:
    """Kubernetes replaces ``$(NAME)`` in arguments and values; ``$$`` is a dollar sign and nothing else."""
    return text.replace("$", "$$")


def _drain_seconds(bridge: Bridge) -> int:
    return math.ceil(bridge.proxy.spec.drain_timeout.seconds)
