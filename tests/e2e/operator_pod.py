"""The operator as a pod by plain manifests, with the rights of the operator's own tests and no more."""

from __future__ import annotations

from typing import Any

from tests.e2e.pods import pod
from tests.operator.rbac import granted

NAME = "operator"
RBAC = "rbac.authorization.k8s.io"


def operator_objects(namespace: str, image: str) -> list[dict[str, Any]]:
    """What makes an operator of one namespace; proxies run the same image."""
    container = {
        "image": image,
        "args": ["operator", "--namespace", namespace, "--image", image],
        "ports": [{"name": "health", "containerPort": 8080}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 5, "timeoutSeconds": 5},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    of_pod = pod(
        NAME,
        container,
        restartPolicy="Always",
        serviceAccountName=NAME,
        automountServiceAccountToken=True,
        volumes=[{"name": "tmp", "emptyDir": {}}],
    )
    rules = [rule for each in granted(namespace) if each["kind"] == "Role" for rule in each["rules"]]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": NAME}, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME},
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": of_pod["metadata"]["labels"]},
                "template": {"metadata": {"labels": of_pod["metadata"]["labels"]}, "spec": of_pod["spec"]},
            },
        },
    ]
