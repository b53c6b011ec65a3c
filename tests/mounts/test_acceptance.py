"""Which connections are accepted, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.mounts.acceptance import proxy_rejection
from mcp_connections.mounts.candidates import Context, InvalidConnection
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.spec import ClientCredentials, DesiredMounts, HttpServer, StdioServer
from tests.mounts.resources import Data, connection, key, proxy, secret

BEARER: dict[str, Any] = {"auth": {"bearer": {"secretKeyRef": {"name": "s", "key": "token"}}}}
STDIO: dict[str, Any] = {"transport": {"stdio": {"command": ["server", "--flag"]}}}
OAUTH: dict[str, Any] = {
    "auth": {
        "oauthClientCredentials": {
            "tokenUrl": "https://idp.example/token",
            "clientId": "me",
            "clientSecret": {"secretKeyRef": {"name": "s", "key": "k"}},
        }
    }
}


def reasons(desired: DesiredMounts) -> dict[str, str]:
    return {each.connection.name: each.reason for each in desired.rejected}


@pytest.mark.parametrize(
    ("spec", "data", "context", "reason", "parts"),
    [
        (BEARER, {}, "Cluster", "SecretNotFound", ["Secret default/s", "spec.auth.bearer.secretKeyRef", "Create it"]),
        (BEARER, secret("s", other=b"x"), "Cluster", "KeyNotFound", ["'token'", "Secret default/s"]),
        (BEARER, secret("s", token=b"a\nb"), "Folder", "InvalidSecret", ["line break", "'token'"]),
        (
            {
                "transport": {
                    "http": {"url": "https://x", "caBundleRef": {"configMapKeyRef": {"name": "c", "key": "k"}}}
                }
            },
            secret("c", k=b"-----BEGIN CERTIFICATE-----"),
            "Cluster",
            "SecretNotFound",
            ["ConfigMap default/c", "spec.transport.http.caBundleRef.configMapKeyRef"],
        ),
        (
            OAUTH,
            {},
            "Cluster",
            "SecretNotFound",
            ["Secret default/s", "spec.auth.oauthClientCredentials.clientSecret.secretKeyRef"],
        ),
        (OAUTH, secret("s", k=b"a\nb"), "Folder", "InvalidSecret", ["line break", "'k'"]),
        (STDIO, {}, "Cluster", "StdioNotAllowed", ["default/default", "spec.stdio.allowed"]),
        ({"proxyRef": {"name": "other"}}, {}, "Folder", "ProxyNotFound", ["'other'", "'default'"]),
    ],
)
def test_reasons(spec: dict[str, Any], data: Data, context: Context, reason: str, parts: list[str]) -> None:
    desired = desired_mounts(proxy(), [connection("a", **spec), connection("b", age=1)], data, context)

    (rejection,) = desired.rejected
    assert (rejection.connection, rejection.reason) == (key("a"), reason)
    for part in parts:
        assert part in rejection.message
    assert [mount.connection.name for mount in desired.mounts] == ["b"]


def test_without_a_proxy_nothing_is_served_in_a_cluster_and_all_in_a_folder() -> None:
    subject = connection("a", proxyRef={"name": "edge"})

    assert reasons(desired_mounts(None, [subject], {}, "Cluster")) == {"a": "ProxyNotFound"}
    assert "McpProxy default/edge" in desired_mounts(None, [subject], {}, "Cluster").rejected[0].message
    assert desired_mounts(None, [connection("a", **STDIO)], {}, "Folder").rejected == ()


@pytest.mark.parametrize(("stdio", "refused"), [({"allowed": False}, True), ({}, False), ({"allowed": True}, False)])
def test_a_folder_refuses_commands_where_its_proxy_says_so(stdio: dict[str, bool], *, refused: bool) -> None:
    desired = desired_mounts(proxy(stdio=stdio), [connection("a", **STDIO)], {}, "Folder")
    assert reasons(desired) == ({"a": "StdioNotAllowed"} if refused else {})


def test_a_cluster_runs_commands_where_the_proxy_allows_it() -> None:
    pod = {"stdio": {"command": ["server"], "image": "server:1", "resources": {"limits": {"memory": "1Gi"}}}}
    connections = [connection("a", **STDIO), connection("b", age=1, transport=pod)]

    assert reasons(desired_mounts(proxy(stdio={"allowed": True}), connections, {}, "Cluster")) == {}
    assert reasons(desired_mounts(proxy(), connections, {}, "Cluster")) == dict.fromkeys("ab", "StdioNotAllowed")


def test_what_cannot_be_read_is_rejected_with_its_fields() -> None:
    broken = InvalidConnection(connection=key("bad"), message="spec.transport: must be set", generation=4)

    desired = desired_mounts(proxy(), [broken, connection("a")], {}, "Cluster")

    assert reasons(desired) == {"bad": "InvalidSpec"}
    assert "spec.transport: must be set" in desired.rejected[0].message


def test_a_rejection_of_the_resource_itself_comes_before_one_of_its_surroundings() -> None:
    both = connection("a", proxyRef={"name": "other"}, **BEARER)

    assert reasons(desired_mounts(None, [both], {}, "Cluster")) == {"a": "ProxyNotFound"}


def test_disabled_ones_are_listed_and_hold_nothing() -> None:
    off = connection("a", enabled=False, prefix="p", **BEARER)

    desired = desired_mounts(proxy(), [off, connection("b", age=1, prefix="p")], {}, "Cluster")

    assert desired.disabled == (key("a"),)
    assert [mount.connection.name for mount in desired.mounts] == ["b"]
    assert desired.rejected == ()


def test_one_that_is_being_deleted_is_left_out() -> None:
    desired = desired_mounts(proxy(), [connection("a", deleted=True)], {}, "Cluster")

    assert desired == DesiredMounts(drain_timeout=30.0)


def test_the_younger_gives_way_and_a_rejected_one_stands_in_nobodys_way() -> None:
    connections = [
        connection("young", age=30, prefix="redis_ft"),
        connection("middle", age=20, prefix="redis", **BEARER),
        connection("old", age=10, prefix="redis"),
        connection("other", age=40, prefix="redis_ft_x"),
    ]

    assert reasons(desired_mounts(proxy(), connections, {}, "Cluster")) == {
        "middle": "SecretNotFound",
        "young": "AmbiguousPrefix",
        "other": "AmbiguousPrefix",
    }
    assert reasons(desired_mounts(proxy(separator="."), connections, {}, "Cluster")) == {"middle": "SecretNotFound"}


def test_age_is_creation_time_then_name_and_in_a_folder_the_name() -> None:
    same = [connection("b", prefix="p"), connection("a", prefix="p"), connection("0", age=5, prefix="p")]

    in_cluster = desired_mounts(proxy(), same, {}, "Cluster")
    in_folder = desired_mounts(proxy(), same, {}, "Folder")

    assert [mount.connection.name for mount in in_cluster.mounts] == ["a"]
    assert [mount.connection.name for mount in in_folder.mounts] == ["0"]


def test_derived_prefixes_are_safe_apart_and_do_not_move_when_another_is_disabled() -> None:
    def prefixes(**changes: Any) -> dict[str, str]:
        connections = [connection("a.b", **changes), connection("a-b", age=1), connection("a.b.c", age=2)]
        return {
            each.connection.name: each.prefix for each in desired_mounts(proxy(), connections, {}, "Cluster").mounts
        }

    both = prefixes()

    assert both["a.b"] == "a-b"
    assert both["a-b"].startswith("a-b-")
    assert both["a.b.c"] == "a-b-c"
    assert prefixes(enabled=False) == {name: prefix for name, prefix in both.items() if name != "a.b"}


def test_settings_and_policies_reach_the_mounts_in_seconds() -> None:
    subject = connection(
        "a",
        account="tenant",
        metadata={"k": [1]},
        policy={"timeouts": {"connect": "100ms", "request": "2m", "max": "1h"}},
        session={"mode": "Shared"},
        catalog={"refreshInterval": "10s", "removalGrace": "0s"},
    )

    desired = desired_mounts(proxy(separator=".", startPolicy="Strict", drainTimeout="90s"), [subject], {}, "Cluster")
    (mount,) = desired.mounts

    assert (desired.separator, desired.start_policy, desired.drain_timeout) == (".", "Strict", 90.0)
    assert (mount.timeouts.connect, mount.timeouts.request, mount.timeouts.max) == (0.1, 120.0, 3600.0)
    assert (mount.account, mount.metadata, mount.session) == ("tenant", {"k": [1]}, "Shared")
    assert (mount.catalog.refresh_interval, mount.catalog.removal_grace) == (10.0, 0.0)


def test_servers_are_resolved_and_do_not_show_their_credentials() -> None:
    data = {
        **secret("s", token=b"Bearer s3cret\n", header=b"h3ader"),
        ("ConfigMap", "default", "ca"): {"ca.crt": b"-----BEGIN CERTIFICATE-----\nMII"},
    }
    headers = [
        {"name": "X-A", "value": "plain"},
        {"name": "X-B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "header"}}},
    ]
    remote = {"url": "wss://x", "headers": headers, "caBundleRef": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}}
    env = [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "header"}}}]
    connections = [
        connection("a", transport={"webSocket": remote}, **BEARER),
        connection("b", transport={"stdio": {"command": ["x", "y"], "env": env, "workingDir": "/tmp"}}),  # noqa: S108
    ]

    desired = desired_mounts(None, connections, data, "Folder")
    first, second = (mount.server for mount in desired.mounts)

    assert first == HttpServer(
        kind="webSocket",
        url="wss://x",
        headers={"X-A": "plain", "X-B": "h3ader", "Authorization": "Bearer s3cret"},
        ca_bundle="-----BEGIN CERTIFICATE-----\nMII",
    )
    assert second == StdioServer(command=("x", "y"), env={"A": "", "B": "h3ader"}, working_dir="/tmp")  # noqa: S108
    assert "s3cret" not in repr(desired)
    assert "h3ader" not in repr(desired)


def test_what_a_token_is_fetched_with_is_resolved_and_does_not_show_its_secret() -> None:
    url = "https://backend.example/mcp?key=k3y"
    data = secret("s", k=b" s3cret\n")
    more = {"scopes": ["read", "write"], "resource": "https://backend.example/", "clientAuthentication": "Post"}
    explicit = {"oauthClientCredentials": {**OAUTH["auth"]["oauthClientCredentials"], **more}}
    connections = [
        connection("a", transport={"http": {"url": url}}, **OAUTH),
        connection("b", transport={"sse": {"url": url}}, auth=explicit),
    ]

    desired = desired_mounts(None, connections, data, "Folder")
    first, second = (mount.server for mount in desired.mounts)

    assert isinstance(first, HttpServer)
    assert isinstance(second, HttpServer)
    assert first.headers == {}
    assert first.client_credentials == ClientCredentials(
        token_url="https://idp.example/token",
        client_id="me",
        client_secret="s3cret",
        resource="https://backend.example/mcp",
    )
    assert second.client_credentials == ClientCredentials(
        token_url="https://idp.example/token",
        client_id="me",
        client_secret="s3cret",
        client_authentication="Post",
        scopes=("read", "write"),
        resource="https://backend.example/",
    )
    assert "s3cret" not in repr(desired)
    assert DesiredMounts.model_validate_json(desired.model_dump_json(by_alias=True)) == desired


def test_forwarded_headers_reach_the_mount_without_regard_to_case_and_order() -> None:
    one, other = (
        desired_mounts(None, [connection("a", auth={"forwardHeaders": names})], {}, "Folder").mounts[0]
        for names in (["X-Tenant", "X-Request-Id"], ["X-Request-Id", "X-Tenant"])
    )

    assert isinstance(one.server, HttpServer)
    assert one.server.forward_headers == ("x-request-id", "x-tenant")
    assert one == other


def test_a_proxy_is_judged_too() -> None:
    assert proxy_rejection(proxy(separator="."), {}) is None
    assert proxy_rejection(proxy(rateLimit={"requests": 5}), {}) is None
    rejection = proxy_rejection(proxy(auth={"bearerTokenRef": {"name": "missing", "key": "k"}}), {})
    assert rejection is not None
    assert rejection.reason == "SecretNotFound"
    assert "missing" in rejection.message
