"""The rights that the operator runs with in these tests: a Role of one namespace with what it needs and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane

READ = ["get", "list", "watch"]
APPLY = [*READ, "create", "patch", "delete"]
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["mcp-connections.io"], "resources": ["mcpconnections", "mcpproxies"], "verbs": READ},
    {
        "apiGroups": ["mcp-connections.io"],
        "resources": ["mcpconnections/status", "mcpproxies/status"],
        "verbs": ["patch"],
    },
    {"apiGroups": [""], "resources": ["secrets", "services", "serviceaccounts"], "verbs": APPLY},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": APPLY},
    {
        "apiGroups": ["networking.k8s.io"],
        "resources": ["networkpolicies"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": READ},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]
NAME = "operator"


def operator_kubeconfig(plane: ControlPlane, namespace: str) -> Path:
    """Credentials of a service account that may do in ``namespace`` what the operator has to, and nothing else."""
    rbac = "rbac.authorization.k8s.io"
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": NAME}, "rules": RULES},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
    ]
    plane.kubectl(
        *("apply", "--server-side", "-n", namespace, "-f", "-"),
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    token = plane.kubectl("create", "token", NAME, "-n", namespace, "--duration=24h").stdout.strip()
    return plane.kubeconfig_for(token)
