"""What the models promise to the rest of the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from inspect import getsource
from typing import Any

import pytest
from pydantic import ValidationError

from mcp_connections.api import reasons
from mcp_connections.api.connection import McpConnection, McpConnectionSpec
from mcp_connections.api.connection_status import CatalogStatus, McpConnectionStatus
from mcp_connections.api.crd import connection_crd, proxy_crd
from mcp_connections.api.durations import Duration
from mcp_connections.api.meta import Condition
from mcp_connections.api.parsing import parse_connection
from mcp_connections.api.policy import Timeouts
from mcp_connections.api.reasons import ConditionType, ProxyConditionType, ProxyReason, Reason
from mcp_connections.api.transport import HttpTransport, StdioTransport, Transport
from tests.api.manifests import EVERYTHING, HTTP, STDIO, manifest


def test_defaults_are_those_of_the_documentation() -> None:
    spec = parse_connection(manifest({"transport": HTTP})).spec

    assert spec.proxy_ref.name == "default"
    assert spec.enabled
    assert spec.prefix is None
    assert spec.session.mode == "Isolated"
    assert [spec.policy.timeouts.connect, spec.policy.timeouts.request, spec.policy.timeouts.max] == [
        "5s",
        "60s",
        "10m",
    ]
    assert (spec.catalog.refresh_interval.seconds, spec.catalog.removal_grace.seconds) == (300, 60)


def test_models_check_themselves_however_they_are_made() -> None:
    with pytest.raises(ValidationError, match="must have exactly one of http, sse, webSocket and stdio"):
        Transport()
    with pytest.raises(ValidationError, match="request must not be longer than max"):
        Timeouts(request=Duration("1h"))


def test_models_do_not_change() -> None:
    spec = McpConnectionSpec(transport=Transport(http=HttpTransport(url="http://h")))

    with pytest.raises(ValidationError, match="frozen"):
        spec.enabled = False  # type: ignore[misc]


def test_the_transport_says_what_it_is() -> None:
    remote = Transport(http=HttpTransport(url="http://h/mcp?token=secret"))
    stdio = Transport(stdio=StdioTransport(command=("server",)))

    assert (remote.kind, remote.remote, remote.address) == ("http", remote.http, "http://h/mcp")
    assert (stdio.kind, stdio.remote, stdio.address) == ("stdio", None, None)


@pytest.mark.parametrize("case", EVERYTHING, ids=lambda case: case.id)
def test_the_transport_kind_is_the_manifests_key(case: Any) -> None:
    if case.kind == "McpConnection":
        assert [parse_connection(case.manifest).spec.transport.kind] == list(case.spec["transport"])


def test_times_are_written_as_kubernetes_writes_them() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=timezone(timedelta(hours=1)))

    assert McpConnectionStatus(last_handshake=moment).dump()["lastHandshake"] == "2026-01-02T02:04:05Z"


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        McpConnectionStatus(last_handshake=datetime(2026, 1, 2))  # noqa: DTZ001  (that is the point)


def test_status_cuts_instead_of_refusing() -> None:
    status = McpConnectionStatus(last_error="x" * 5000, catalog=CatalogStatus(names=tuple(map(str, range(60)))))

    assert status.last_error == f"{'x' * 4095}…"
    assert status.catalog is not None
    assert status.catalog.names == tuple(map(str, range(50)))


def test_a_condition_needs_a_reason() -> None:
    with pytest.raises(ValidationError):
        Condition(type="Ready", status="True", reason="", message="", last_transition_time=datetime.now(UTC))


@pytest.mark.parametrize("reason", [*Reason, *ProxyReason, *ConditionType, *ProxyConditionType])
def test_reasons_and_types_are_what_conditions_take(reason: str) -> None:
    condition = Condition(
        type=reason, status="Unknown", reason=reason, message="", last_transition_time=datetime.now(UTC)
    )

    assert condition.dump()["reason"] == str(reason)


def test_every_reason_is_documented() -> None:
    for enum in ast.parse(getsource(reasons)).body:
        if isinstance(enum, ast.ClassDef):
            members = enum.body[1:]
            for member, text in zip(members[::2], members[1::2], strict=True):
                assert isinstance(member, ast.Assign)
                assert isinstance(text, ast.Expr), ast.unparse(member)


def test_the_examples_set_every_field() -> None:
    """What the tests on a real API server call everything is everything."""
    used = {path for case in EVERYTHING for path in _paths(case.spec, case.kind)}
    known = {
        path
        for crd, kind in ((connection_crd(), "McpConnection"), (proxy_crd(), "McpProxy"))
        for path in _schema_paths(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], kind)
    }

    assert known - used == set()


def _paths(value: Any, path: str) -> Iterator[str]:
    yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _paths(member, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, path)


def _schema_paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    yield path
    for name, member in schema.get("properties", {}).items():
        yield from _schema_paths(member, f"{path}.{name}")
    if "items" in schema:
        yield from _schema_paths(schema["items"], path)


def test_a_connection_can_be_built_without_a_manifest() -> None:
    built = McpConnection.model_validate({"metadata": {"name": "example"}, "spec": {"transport": STDIO}})

    assert built == parse_connection(manifest({"transport": STDIO}))
