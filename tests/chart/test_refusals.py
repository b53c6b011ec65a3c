"""Values that the chart does not take are refused with the value's name and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import CHART, Helm

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"imagee": {}}, "''", "additional properties 'imagee' not allowed"),
    ({"image": {"tagg": "1"}}, "/image", "additional properties 'tagg' not allowed"),
    ({"image": {"tag": 1.2}}, "/image/tag", "got number, want string"),
    ({"image": {"repository": "proxy@sha256:00"}}, "/image/repository", "does not match pattern"),
    ({"image": {"digest": "sha256:12"}}, "/image/digest", "does not match pattern"),
    (
        {"image": {"pullPolicy": "Sometimes"}},
        "/image/pullPolicy",
        "must be one of '', 'Always', 'IfNotPresent', 'Never'",
    ),
    ({"image": {"pullSecrets": ["registry"]}}, "/image/pullSecrets/0", "got string, want object"),
    ({"crds": {"enabled": "yes"}}, "/crds/enabled", "got string, want boolean"),
    ({"watchNamespaces": "team-a"}, "/watchNamespaces", "got string, want array"),
    ({"watchNamespaces": ["Team A"]}, "/watchNamespaces/0", "does not match pattern"),
    ({"operator": {"logLevel": "loud"}}, "/operator/logLevel", "must be one of 'debug', 'info', 'warning', 'error'"),
    ({"operator": {"replicas": 2}}, "/operator", "additional properties 'replicas' not allowed"),
    ({"operator": {"env": [{"value": "x"}]}}, "/operator/env/0", "missing property 'name'"),
    ({"operator": {"resources": {"limit": {}}}}, "/operator/resources", "additional properties 'limit' not allowed"),
    (
        {"operator": {"tolerations": [{"Key": "x"}]}},
        "/operator/tolerations/0",
        "additional properties 'Key' not allowed",
    ),
    ({"proxy": {"name": "Agents"}}, "/proxy/name", "does not match pattern"),
    ({"proxy": {"name": "a" * 41}}, "/proxy/name", "maxLength: got 41, want 40"),
    ({"proxy": {"spec": {"replica": 2}}}, "/proxy/spec", "additional properties 'replica' not allowed"),
    ({"proxy": {"spec": {"startPolicy": "Lax"}}}, "/proxy/spec/startPolicy", "must be one of 'Lenient', 'Strict'"),
    (
        {"proxy": {"spec": {"auth": {"jwt": {"issuer": "x"}}}}},
        "/proxy/spec/auth/jwt",
        "missing properties 'audience', ",
    ),
    (
        {"proxy": {"spec": {"auth": {"none": {}, "bearerTokenRef": {"name": "clients", "key": "token"}}}}},
        "/proxy/spec/auth",
        "maxProperties: got 2, want 1",
    ),
    ({"proxy": {"spec": {"auth": {}}}}, "/proxy/spec/auth", "minProperties: got 0, want 1"),
    ({"proxy": {"spec": {"service": {"port": 70000}}}}, "/proxy/spec/service/port", "maximum: got 70,000, want 65,535"),
    (
        {"proxy": {"podDisruptionBudget": {"maxUnavailable": "most"}}},
        "/proxy/podDisruptionBudget/maxUnavailable",
        "does not match pattern",
    ),
    (
        {"metrics": {"monitor": {"kind": "Probe"}}},
        "/metrics/monitor/kind",
        "must be one of 'PodMonitor', 'ServiceMonitor'",
    ),
    ({"test": {"timeoutSeconds": 0}}, "/test/timeoutSeconds", "minimum: got 0, want 1"),
]
CONFLICTS: list[tuple[dict[str, Any], str]] = [
    (
        {"watchAllNamespaces": True, "watchNamespaces": ["apps"]},
        "watchAllNamespaces and watchNamespaces exclude each other: leave one of them out",
    ),
    (
        {"watchNamespaces": ["team-a"]},
        "proxy.create puts an McpProxy into namespace apps, which watchNamespaces does not name: add it there, or set",
    ),
    (
        {"proxy": {"autoscaling": {"enabled": True}, "spec": {"replicas": 2}}},
        "proxy.autoscaling.enabled and proxy.spec.replicas exclude each other",
    ),
    (
        {"proxy": {"autoscaling": {"enabled": True, "minReplicas": 6}}},
        "proxy.autoscaling.maxReplicas must not be less than proxy.autoscaling.minReplicas",
    ),
    (
        {"proxy": {"autoscaling": {"enabled": True}, "spec": {"resources": {"requests": {"cpu": None}}}}},
        "set proxy.spec.resources.requests.cpu",
    ),
    (
        {"serviceAccount": {"create": False}},
        "would give the operator's rights to the namespace's default ServiceAccount: set serviceAccount.name",
    ),
]


@pytest.mark.parametrize(("values", "where", "what"), REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_a_value_that_the_schema_does_not_allow(values: dict[str, Any], where: str, what: str, helm: Helm) -> None:
    refusal = helm.refusal(values)

    assert any(where in line and what in line for line in refusal.splitlines()), refusal


@pytest.mark.parametrize(("values", "what"), CONFLICTS, ids=[what for _, what in CONFLICTS])
def test_values_that_do_not_go_together(values: dict[str, Any], what: str, helm: Helm) -> None:
    assert what in helm.refusal(values)


def test_no_object_of_the_schema_takes_members_that_it_does_not_know() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_ones = {
        path
        for path, each in objects_of(schema)
        if each.get("additionalProperties") is not False and not isinstance(each.get("additionalProperties"), dict)
    }

    # What belongs to Kubernetes or to Helm, and is checked there.
    allowed = ("global", "valueFrom", "Affinity", "Selector", "scaleUp", "scaleDown", "podTemplate/properties/spec")
    assert {path for path in open_ones if not path.endswith(allowed)} == set()


def test_every_value_is_in_the_schema_and_in_the_readme() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = Path(CHART / "README.md").read_text()

    for path in settings(schema, schema, ""):
        assert f"| `{path}` |" in readme, path


def objects_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object, and where it is."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from objects_of(value, f"{path}/{key}")


def settings(root: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    """Dotted names of all settings, down to what is Kubernetes' own."""
    for name, each in schema["properties"].items():
        full = f"{path}.{name}" if path else name
        leaf = "properties" not in each or name in ("affinity", "behavior")
        if not leaf:
            yield from settings(root, each, full)
        elif name != "global":
            yield full
