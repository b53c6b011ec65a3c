"""The CRDs on a real API server: what it accepts, what it refuses and in which words, what it fills in and drops.

The tables are those of the models, so a manifest meets the same verdict in a cluster and in a folder.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_connections.api.parsing import parse
from tests.api.manifests import EVERYTHING, HTTP, INVALID, VALID, Invalid, Valid, headers, manifest, with_http
from tests.cluster.control_plane import ControlPlane
from tests.cluster.plugin import CRDS
from tests.crd.resource_api import Refused, ResourceApi

CRD_NAMES = ["mcpconnections.mcp-connections.io", "mcpproxies.mcp-connections.io"]


@pytest.mark.parametrize("name", CRD_NAMES)
def test_the_crd_is_established_and_structural(control_plane: ControlPlane, name: str) -> None:
    crd = json.loads(control_plane.kubectl("get", "crd", name, "-o", "json").stdout)

    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_the_crds_are_stored_as_they_are(control_plane: ControlPlane) -> None:
    """So whoever else applies them as well, a release of the chart above all, meets no conflict."""
    control_plane.kubectl(
        *("apply", "--server-side", "--field-manager=somebody-else", "--dry-run=server", "-f", str(CRDS))
    )


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
def test_valid(dry_run: ResourceApi, case: Valid) -> None:
    stored = dry_run.create(case.manifest, dryRun="All", fieldValidation="Strict")

    assert parse(stored) == parse(case.manifest).model_copy(
        update={"metadata": parse(stored).metadata, "status": parse(stored).status}
    )


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.id)
def test_invalid(dry_run: ResourceApi, case: Invalid) -> None:
    with pytest.raises(Refused) as refused:
        dry_run.create(case.manifest, dryRun="All", fieldValidation="Strict")

    told = [f"{field}: {message}" for field, message in refused.value.causes if field != "<nil>"]
    assert len(told) == len(case.server_errors), told
    for expected in case.server_errors:
        field, _, text = expected.partition(": ")
        assert any(line.startswith(f"{field}: ") and text in line for line in told), told


@pytest.mark.parametrize("case", EVERYTHING, ids=lambda case: case.id)
def test_nothing_a_user_may_write_is_pruned(dry_run: ResourceApi, case: Valid) -> None:
    stored = dry_run.create(case.manifest, dryRun="All")

    assert _missing(case.manifest["spec"], stored["spec"]) == []


def test_defaults_are_filled_in(dry_run: ResourceApi) -> None:
    stored = dry_run.create(
        manifest(with_http(policy={"timeouts": {}, "rateLimit": {"requests": 1}}, session={}, catalog={})),
        dryRun="All",
    )

    assert stored["spec"] == {
        "proxyRef": {"name": "default"},
        "enabled": True,
        "transport": HTTP,
        "policy": {
            "timeouts": {"connect": "5s", "request": "60s", "max": "10m"},
            "rateLimit": {"requests": 1, "per": "1s"},
        },
        "session": {"mode": "Isolated"},
        "catalog": {"refreshInterval": "300s", "removalGrace": "60s"},
    }


def test_proxy_defaults_are_filled_in(dry_run: ResourceApi) -> None:
    stored = dry_run.create(manifest({"service": {}, "stdio": {}}, "McpProxy"), dryRun="All")

    assert stored["spec"] == {
        "separator": "_",
        "startPolicy": "Lenient",
        "drainTimeout": "30s",
        "service": {"type": "ClusterIP", "port": 8000},
        "stdio": {"allowed": False},
    }


@pytest.mark.parametrize(
    ("kind", "spec", "types"),
    [
        ("McpConnection", {"transport": HTTP}, ["Ready", "Accepted", "Mounted"]),
        ("McpProxy", {}, ["Available", "Accepted", "Programmed"]),
    ],
    ids=["connection", "proxy"],
)
def test_without_an_operator_status_says_what_is_missing(
    resource_api: ResourceApi, kind: str, spec: dict[str, Any], types: list[str]
) -> None:
    stored = resource_api.create(manifest(spec, kind))

    assert [condition["type"] for condition in stored["status"]["conditions"]] == types
    assert {(c["status"], c["reason"], c["message"]) for c in stored["status"]["conditions"]} == {
        ("Unknown", "Pending", "Waiting for the operator")
    }


def test_unknown_fields_are_pruned(dry_run: ResourceApi) -> None:
    spec = with_http(sesion={"mode": "Shared"}, metadata={"free": {"form": 1}})

    stored = dry_run.create(manifest(spec), dryRun="All", fieldValidation="Ignore")

    assert "sesion" not in stored["spec"]
    assert stored["spec"]["metadata"] == {"free": {"form": 1}}


def test_kubectl_refuses_unknown_fields_by_name(control_plane: ControlPlane, namespace: str) -> None:
    refused = control_plane.kubectl(
        "create", "-n", namespace, "-f", "-", input=json.dumps(manifest(with_http(sesion={}))), check=False
    )

    assert refused.returncode == 1
    assert 'unknown field "spec.sesion"' in refused.stderr


def test_a_manifest_as_large_as_the_bounds_allow_is_within_the_cost_budget(dry_run: ResourceApi) -> None:
    """The API server also counts what the rules cost at run time, and refuses an object that costs too much."""
    long_names = [f"{index:03}{'x' * 125}" for index in range(128)]
    spec = headers(*({"name": name, "value": "v" * 8192} for name in long_names[:32]))
    spec["tools"] = {"rename": dict(zip(long_names, reversed(long_names), strict=True)), "include": ["g" * 512] * 1}
    spec["metadata"] = dict.fromkeys(long_names[:64], "m")

    stored = dry_run.create(manifest(spec), dryRun="All", fieldValidation="Strict")

    assert len(stored["spec"]["transport"]["http"]["headers"]) == 32


def _missing(wanted: Any, found: Any, path: str = "spec") -> list[str]:
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [path]
        return [
            gone
            for key, value in wanted.items()
            for gone in (_missing(value, found[key], f"{path}.{key}") if key in found else [f"{path}.{key}"])
        ]
    return [] if wanted == found else [path]
