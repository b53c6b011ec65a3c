"""Manifests as people write them, with the mistakes they make."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_connections.api.field_errors import FieldError
from mcp_connections.api.parsing import InvalidManifest, parse, parse_connection, parse_proxy
from tests.api.manifests import API_VERSION, FROM_SECRET, HTTP, OBJECT_NAME, STDIO, manifest, with_http

NAMESPACE = "must be a namespace: lower case letters, digits and -, starting and ending with a letter or digit"


def refusal(obj: Any, *, strict: bool = True) -> list[str]:
    with pytest.raises(InvalidManifest) as refused:
        parse(obj, strict=strict)
    return [str(error) for error in refused.value.errors]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "must be an object with apiVersion, kind, metadata and spec, is null"),
        ([], "must be an object with apiVersion, kind, metadata and spec, is a list"),
        ("text", "must be an object with apiVersion, kind, metadata and spec, is a string"),
        ({}, "kind: must be McpConnection or McpProxy, is not set"),
        ({"kind": 1}, "kind: must be McpConnection or McpProxy, is a number"),
        ({"kind": "Secret"}, "kind: must be McpConnection or McpProxy, is Secret"),
        ({"kind": "McpProxy"}, f"apiVersion: must be {API_VERSION}, is not set"),
        (
            {"kind": "McpProxy", "apiVersion": "mcp-connections.io/v1"},
            f"apiVersion: must be {API_VERSION}, is mcp-connections.io/v1",
        ),
    ],
)
def test_what_is_no_resource_of_ours_is_refused(obj: Any, message: str) -> None:
    assert refusal(obj) == [message]


def test_the_other_kind_is_refused() -> None:
    with pytest.raises(InvalidManifest, match="kind: must be McpProxy, is McpConnection"):
        parse_proxy(manifest({"transport": HTTP}))
    with pytest.raises(InvalidManifest, match="kind: must be McpConnection, is McpProxy"):
        parse_connection(manifest({}, "McpProxy"))


@pytest.mark.parametrize(
    ("metadata", "messages"),
    [
        (None, ["metadata: must be set"]),
        ("a", ["metadata: must be an object, is a string"]),
        ({}, ["metadata.name: must be set"]),
        ({"name": 7}, ["metadata.name: must be a string, is a number (put it in quotes)"]),
        (
            {"name": "Upper"},
            [
                f"metadata.name: {OBJECT_NAME}",
            ],
        ),
        ({"name": "a" * 254}, ["metadata.name: must be at most 253 characters long"]),
        (
            {"name": "a", "namespace": "a.b"},
            [
                f"metadata.namespace: {NAMESPACE}",
            ],
        ),
        ({"name": "a", "labels": {"a": 1}}, ["metadata.labels.a: must be a string, is a number (put it in quotes)"]),
        ({"name": "a", "lables": {}}, ["metadata.lables: is not a known field, did you mean labels?"]),
    ],
)
def test_metadata(metadata: Any, messages: list[str]) -> None:
    assert refusal({**manifest({"transport": HTTP}), "metadata": metadata}) == messages


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (with_http(Prefix="a"), "spec.Prefix: is not a known field, did you mean prefix?"),
        (with_http(sesion={}), "spec.sesion: is not a known field, did you mean session?"),
        (
            with_http(policy={"timeouts": {"read": "1s"}}),
            "spec.policy.timeouts.read: is not a known field, must be one of connect, request, max",
        ),
        (
            {"transport": {"websocket": {"url": "ws://h"}, **HTTP}},
            "spec.transport.websocket: is not a known field, did you mean webSocket?",
        ),
        (
            {"transport": {"http": {"url": "http://h", "headers": [{"name": "a", "value": "b", "valuefrom": {}}]}}},
            "spec.transport.http.headers[0].valuefrom: is not a known field, did you mean valueFrom?",
        ),
    ],
)
def test_an_unknown_field_is_named_with_a_close_match(spec: dict[str, Any], message: str) -> None:
    assert refusal(manifest(spec)) == [message]
    parse(manifest(spec), strict=False)


def test_faults_of_an_object_and_of_its_members_are_told_together() -> None:
    spec = {
        "transport": {
            "http": {"url": 1, "headers": [{"name": "a", "value": "b"}, {"name": "A"}]},
            "stdio": {"command": ["x"], "env": [{"name": "E", "value": 1, "valueFrom": FROM_SECRET}]},
        },
        "enabled": "perhaps",
    }
    assert refusal(manifest(spec)) == [
        "spec.enabled: must be true or false, is a string",
        "spec.transport.http.url: must be a string, is a number (put it in quotes)",
        "spec.transport.http.headers[1]: must have exactly one of value and valueFrom",
        "spec.transport.stdio.env[0].value: must be a string, is a number (put it in quotes)",
        "spec.transport: must have exactly one of http, sse, webSocket and stdio",
        "spec.transport.stdio.env[0]: must have exactly one of value and valueFrom",
    ]


def test_a_misspelled_member_is_not_missed_besides() -> None:
    assert refusal(manifest({"transport": {"htttp": {"url": "http://h"}}})) == [
        "spec.transport.htttp: is not a known field, did you mean http?"
    ]
    assert refusal(manifest({"transport": {"htttp": {}, **HTTP, **STDIO}})) == [
        "spec.transport.htttp: is not a known field, did you mean http?",
        "spec.transport: must have exactly one of http, sse, webSocket and stdio",
    ]


def test_a_field_of_an_object_without_fields() -> None:
    assert refusal(manifest({"auth": {"none": {"really": True}}}, "McpProxy")) == [
        "spec.auth.none.really: must not be set: has no fields"
    ]


def test_snake_case_is_not_another_spelling() -> None:
    message = "spec.proxy_ref: is not a known field, did you mean proxyRef?"

    assert refusal(manifest(with_http(proxy_ref={"name": "edge"}))) == [message]


def test_fields_outside_spec_are_known_too() -> None:
    assert refusal({**manifest({"transport": HTTP}), "sepc": {}}) == ["sepc: is not a known field, did you mean spec?"]


def test_no_spec() -> None:
    without = {"apiVersion": API_VERSION, "metadata": {"name": "a"}}

    assert refusal({**without, "kind": "McpConnection"}) == ["spec: must be set"]
    assert parse_proxy({**without, "kind": "McpProxy"}).spec.separator == "_"


def test_errors_do_not_repeat_values() -> None:
    secret = "hunter2\n"
    spec = {"transport": {"http": {"url": f"http://u:{secret}@h", "headers": [{"name": "A", "value": secret}]}}}

    assert "hunter2" not in "".join(refusal(manifest(spec)))


def test_metadata_that_is_no_json() -> None:
    assert refusal(manifest(with_http(metadata={"since": datetime(2026, 1, 1, tzinfo=UTC)}))) == [
        "spec.metadata.since: must be plain JSON data, is a datetime"
    ]


def test_data_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless

    assert refusal(manifest(with_http(metadata=endless)))
    assert refusal(manifest(with_http(policy=endless))) == [
        (
            "spec.policy.self: is not a known field, must be one of timeouts, retry, rateLimit, maxConcurrency, "
            "circuitBreaker"
        )
    ]


def test_what_kubectl_prints_is_a_manifest() -> None:
    connection = parse_connection(
        {
            **manifest(with_http(metadata={"kept": None})),
            "metadata": {
                "name": "a",
                "namespace": "team",
                "uid": "u",
                "generation": 3,
                "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "labels": {"l": "v"},
                "annotations": {"a": "v"},
                "managedFields": [{"manager": "kubectl"}],
                "ownerReferences": [],
                "finalizers": [],
            },
            "status": {"conditions": [], "fieldOfALaterVersion": 1},
        }
    )

    assert connection.metadata.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (connection.metadata.uid, connection.metadata.generation) == ("u", 3)
    assert connection.spec.metadata == {"kept": None}


def test_status_is_read_as_far_as_it_is_understood() -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "later": 1,
    }

    read = parse_connection({**manifest({"transport": HTTP}), "status": {"conditions": [condition]}}).status
    broken = parse_connection({**manifest({"transport": HTTP}), "status": {"conditions": "none"}}).status

    assert read.conditions[0].last_transition_time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert broken.conditions == ()


def test_the_text_of_the_exception_holds_every_error() -> None:
    error = InvalidManifest([FieldError("spec.a", "must be b"), FieldError("", "must be c")])

    assert str(error) == "spec.a: must be b; must be c"
