"""Status as the operator writes it, and what kubectl makes of it, on a real API server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_connections.api.connection_status import (
    MAX_NAMES,
    MAX_NOTES,
    MAX_RETIRED,
    CatalogNoteStatus,
    CatalogStatus,
    ConnectionRef,
    McpConnectionStatus,
    MountStatus,
    RetiredMountStatus,
    ServerStatus,
)
from mcp_connections.api.meta import Condition
from mcp_connections.api.parsing import parse_connection
from mcp_connections.api.proxy import ConnectionCounts, McpProxyStatus
from mcp_connections.api.reasons import ConditionType, Reason
from tests.api.manifests import API_VERSION, HTTP, manifest
from tests.cluster.control_plane import ControlPlane
from tests.crd.resource_api import Refused, ResourceApi

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
READY = Condition(
    type=ConditionType.READY,
    status="True",
    observed_generation=1,
    last_transition_time=NOW,
    reason=Reason.READY,
    message="12 tools",
)


def with_status(status: dict[str, Any], kind: str = "McpConnection") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "example"}, "status": status}


def full_status() -> McpConnectionStatus:
    return McpConnectionStatus(
        observed_generation=1,
        conditions=(READY,),
        mount=MountStatus(
            fingerprint="0123456789abcdef",
            since=NOW,
            replicas=2,
            prefix="github",
            transport="http",
            url="https://backend.example/mcp",
        ),
        retired_mounts=(
            RetiredMountStatus(
                connection=ConnectionRef(namespace="default", name="example", uid="u"),
                fingerprint="f",
                reason="Changed",
                retired_at=NOW,
                in_flight=1,
                state="Draining",
            ),
        ),
        catalog=CatalogStatus(
            tools=12,
            hash="h",
            names=("github_read",),
            skipped=(CatalogNoteStatus(kind="tool", name="bad", reason="has no inputSchema"),),
        ),
        server=ServerStatus(name="backend", version="1", protocol_version="2025-11-25"),
        last_handshake=NOW,
        last_error="refused",
        next_retry=NOW,
    )


def test_status_comes_back_as_written(resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    status = full_status()

    stored = resource_api.apply_status(with_status(status.dump()), fieldValidation="Strict")

    read = parse_connection(stored).status
    assert read.dump()["conditions"][0] == status.dump()["conditions"][0]
    assert read.model_copy(update={"conditions": ()}).dump() == status.model_copy(update={"conditions": ()}).dump()


def test_writing_the_same_status_again_changes_nothing(resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    first = resource_api.apply_status(with_status(full_status().dump()))

    second = resource_api.apply_status(with_status(full_status().dump()))

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_first_status_replaces_the_waiting_conditions_of_its_types(resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    conditions = tuple(READY.model_copy(update={"type": kind.value}) for kind in ConditionType)

    stored = resource_api.apply_status(with_status(McpConnectionStatus(conditions=conditions).dump()))

    assert {c["type"]: c["status"] for c in stored["status"]["conditions"]} == dict.fromkeys(ConditionType, "True")


def test_whatever_a_backend_says_fits(resource_api: ResourceApi) -> None:
    endless = "ü" * 100_000
    note = CatalogNoteStatus(kind="tool", name=endless, reason=endless)
    retired = full_status().retired_mounts[0]
    status = McpConnectionStatus(
        conditions=(Condition(**{**READY.model_dump(), "message": endless}),),
        mount=MountStatus(fingerprint="f", transport="http", url=f"https://h/{endless}"),
        retired_mounts=(retired,) * 500,
        catalog=CatalogStatus(names=(endless,) * 500, skipped=(note,) * 500, notices=(note,) * 500),
        server=ServerStatus(name=endless, version=endless, protocol_version=endless),
        last_error=endless,
    )
    resource_api.create(manifest({"transport": HTTP}))

    stored = resource_api.apply_status(with_status(status.dump()), fieldValidation="Strict")["status"]

    assert len(stored["catalog"]["names"]) == MAX_NAMES
    assert len(stored["catalog"]["skipped"]) == MAX_NOTES
    assert len(stored["retiredMounts"]) == MAX_RETIRED
    assert stored["lastError"].endswith("ü…")


def test_an_unknown_condition_status_is_refused(resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    condition = {**READY.dump(), "status": "Maybe"}

    with pytest.raises(Refused, match=r"status\.conditions\[0\]\.status"):
        resource_api.apply_status(with_status({"conditions": [condition]}))


def test_kubectl_get_shows_the_columns(control_plane: ControlPlane, namespace: str, resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    resource_api.apply_status(with_status(full_status().dump()))

    narrow = _table(control_plane, "get", "mcpc", "-n", namespace)
    wide = _table(control_plane, "get", "mcpc", "-n", namespace, "-o", "wide")

    assert list(narrow) == ["NAME", "PREFIX", "TRANSPORT", "TOOLS", "READY", "REASON", "AGE"]
    assert list(wide) == [*narrow, "URL", "PROTOCOL", "FINGERPRINT", "MESSAGE"]
    del wide["AGE"]
    assert wide == {
        "NAME": "example",
        "PREFIX": "github",
        "TRANSPORT": "http",
        "TOOLS": "12",
        "READY": "True",
        "REASON": "Ready",
        "URL": "https://backend.example/mcp",
        "PROTOCOL": "2025-11-25",
        "FINGERPRINT": "0123456789abcdef",
        "MESSAGE": "12 tools",
    }


def test_kubectl_get_shows_the_columns_of_a_proxy(
    control_plane: ControlPlane, namespace: str, resource_api: ResourceApi
) -> None:
    resource_api.create(manifest({}, "McpProxy"))
    status = McpProxyStatus(
        conditions=(
            READY.model_copy(update={"type": "Available", "reason": "Available", "message": "served"}),
            READY.model_copy(update={"type": "Programmed", "status": "False"}),
        ),
        endpoint="http://example.default.svc:8000/mcp",
        replicas=2,
        connections=ConnectionCounts(total=3, mounted=2, ready=1),
    )
    resource_api.apply_status(with_status(status.dump(), "McpProxy"), fieldValidation="Strict")

    row = _table(control_plane, "get", "mcpp", "-n", namespace, "-o", "wide")

    del row["AGE"]
    assert row == {
        "NAME": "example",
        "REPLICAS": "2",
        "CONNECTIONS": "3",
        "READY": "1",
        "AVAILABLE": "True",
        "PROGRAMMED": "False",
        "ENDPOINT": "http://example.default.svc:8000/mcp",
        "REASON": "Available",
        "MESSAGE": "served",
    }


def test_kubectl_wait_sees_ready(control_plane: ControlPlane, namespace: str, resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    resource_api.apply_status(with_status(full_status().dump()))

    waited = control_plane.kubectl("wait", "--for=condition=Ready", "--timeout=30s", "mcpc/example", "-n", namespace)

    assert "condition met" in waited.stdout


def test_both_kinds_are_in_the_category(control_plane: ControlPlane, namespace: str, resource_api: ResourceApi) -> None:
    resource_api.create(manifest({"transport": HTTP}))
    resource_api.create(manifest({}, "McpProxy"))

    listed = control_plane.kubectl("get", "mcp", "-n", namespace, "-o", "name").stdout.split()

    assert sorted(listed) == ["mcpconnection.mcp-connections.io/example", "mcpproxy.mcp-connections.io/example"]


def test_connections_can_be_selected_by_proxy(
    control_plane: ControlPlane, namespace: str, resource_api: ResourceApi
) -> None:
    resource_api.create(manifest({"transport": HTTP}, name="one"))
    resource_api.create(manifest({"transport": HTTP, "proxyRef": {"name": "edge"}}, name="two"))

    for proxy, names in {"default": ["one"], "edge": ["two"]}.items():
        found = control_plane.kubectl(
            "get", "mcpc", "-n", namespace, f"--field-selector=spec.proxyRef.name={proxy}", "-o", "json"
        )
        assert [item["metadata"]["name"] for item in json.loads(found.stdout)["items"]] == names


def test_kubectl_explain_knows_the_fields(control_plane: ControlPlane) -> None:
    told = " ".join(control_plane.kubectl("explain", "mcpc.spec.policy.timeouts.request").stdout.split())

    assert "Longest time to wait for an answer" in told


def _table(plane: ControlPlane, *args: str) -> dict[str, str]:
    """The only row of kubectl's table, by column title."""
    title, row = plane.kubectl(*args).stdout.splitlines()
    starts = [index for index in range(len(title)) if title[index] != " " and (index == 0 or title[index - 1] == " ")]
    ends = [*starts[1:], max(len(title), len(row))]
    return {title[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}
