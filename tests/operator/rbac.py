"""The rights that the operator runs with in these tests: those that the chart grants, and no more."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.chart.helm import Helm, one
from tests.cluster.control_plane import ControlPlane

RELEASE = "operator-mcp-connections"
"""Name of a release, and so of its ServiceAccount and Roles."""

Rule = dict[str, Any]
"""A rule of a Role."""


def operator_kubeconfig(
    plane: ControlPlane, namespace: str, change: Callable[[list[Rule]], list[Rule]] = lambda rules: rules
) -> Path:
    """Credentials of a service account that may do in ``namespace`` what the chart lets the operator do, and nothing
    else. ``change`` is given the rules of each Role."""
    objects = [
        each | ({"rules": change(each["rules"])} if "rules" in each else {})
        for each in granted(namespace)
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding")
    ]
    plane.kubectl(
        *("apply", "--server-side", "-n", namespace, "-f", "-"),
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    return token_kubeconfig(plane, namespace, one(objects, "ServiceAccount")["metadata"]["name"])


def token_kubeconfig(plane: ControlPlane, namespace: str, account: str) -> Path:
    """Credentials of a service account."""
    token = plane.kubectl("create", "token", account, "-n", namespace, "--duration=24h").stdout.strip()
    return plane.kubeconfig_for(token)


def granted(namespace: str) -> list[dict[str, Any]]:
    """What the chart renders for a release in ``namespace``."""
    text = json.dumps(_rendered()).replace("the-namespace", namespace)
    objects: list[dict[str, Any]] = json.loads(text)
    return objects


@cache
def _rendered() -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        objects = Helm("helm4", Path(folder)).objects(release=RELEASE, namespace="the-namespace")
    return copy.deepcopy(objects)
