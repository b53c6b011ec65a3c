"""Fields that have no effect yet are found when they are set, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.api.parsing import parse_connection, parse_proxy
from mcp_connections.api.support import (
    CONNECTION_FIELDS,
    PROXY_FIELDS,
    unsupported_fields,
    unsupported_proxy_fields,
)
from tests.api.manifests import EVERYTHING, HTTP, STDIO, VALID, manifest, with_http

OF_STDIO = {field for field in CONNECTION_FIELDS if ".stdio." in field}
OF_AUTH = {"spec.auth.oauthClientCredentials", "spec.auth.forwardHeaders"}


def everything(case_id: str) -> dict[str, Any]:
    return next(case.manifest for case in EVERYTHING if case.id == case_id)


@pytest.mark.parametrize(
    ("case_id", "expected"),
    [
        ("everything-http", set(CONNECTION_FIELDS) - OF_STDIO - {"spec.auth.oauthClientCredentials"}),
        ("everything-sse", set(CONNECTION_FIELDS) - OF_STDIO - {"spec.auth.forwardHeaders"}),
        ("everything-stdio", set(CONNECTION_FIELDS) - OF_AUTH),
    ],
)
def test_each_field_is_found_where_it_is_set(case_id: str, expected: set[str]) -> None:
    assert set(unsupported_fields(parse_connection(everything(case_id)))) == expected


def test_each_proxy_field_is_found_where_it_is_set() -> None:
    jwt = unsupported_proxy_fields(parse_proxy(everything("everything-proxy")))
    bearer = unsupported_proxy_fields(parse_proxy(everything("everything-proxy-bearer")))

    assert {*jwt, *bearer} == set(PROXY_FIELDS)
    assert unsupported_proxy_fields(parse_proxy(everything("everything-proxy-none"))) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"transport": HTTP},
        {"transport": STDIO},
        with_http(tools={"include": [], "rename": {}}, auth={"forwardHeaders": []}, policy={"retry": None}),
        {"transport": {"stdio": {"command": ["a"], "resources": {}, "image": None}}},
        with_http(
            prefix="p",
            account="a",
            metadata={"a": 1},
            enabled=False,
            auth={"bearer": {"secretKeyRef": {"name": "s", "key": "k"}}},
            policy={"timeouts": {"connect": "1s", "request": "2s", "max": "3s"}},
            session={"mode": "Shared"},
            catalog={"refreshInterval": "1s", "removalGrace": "1s"},
        ),
    ],
)
def test_defaults_and_fields_with_effect_are_not_found(spec: dict[str, Any]) -> None:
    assert unsupported_fields(parse_connection(manifest(spec))) == []


def test_every_listed_field_exists() -> None:
    """A path that no model has would raise here."""
    for case in VALID:
        if case.kind == "McpProxy":
            unsupported_proxy_fields(parse_proxy(case.manifest))
        else:
            unsupported_fields(parse_connection(case.manifest))
