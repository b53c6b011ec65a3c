"""What the pods of proxies and bridges have in common: they ask for no right at all, and say whether they are well."""

from __future__ import annotations

from typing import Any

from mcp_connections.api.resources import ResourceRequirements

USER = 65532
"""User and group of the container, the "nonroot" of common base images."""
SHUTDOWN_MARGIN = 15
"""Seconds that a pod gets on top of the drain timeout: for closing sessions, and for endpoints to be withdrawn."""
TMP_VOLUME = {"name": "tmp", "emptyDir": {}}
TMP_MOUNT = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108  (within the container)


def service_account(metadata: dict[str, Any]) -> dict[str, Any]:
    """A ServiceAccount without a token: the pods have nothing to ask of the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }


def hardened_pod(service_account_name: str, drain_seconds: int) -> dict[str, Any]:
    """Members of a PodSpec."""
    return {
        "serviceAccountName": service_account_name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": drain_seconds + SHUTDOWN_MARGIN,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def hardened_container(probed_port: str, resources: ResourceRequirements) -> dict[str, Any]:
    """Members of a Container; ``probed_port`` names the one that answers probes."""
    container: dict[str, Any] = {
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": probed_port},
            "periodSeconds": 2,
            "timeoutSeconds": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": probed_port},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if given := {name: values for name, values in resources.dump().items() if values}:
        container["resources"] = given
    return container
