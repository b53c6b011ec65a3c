"""What changes a fingerprint and what does not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.parsing import parse_connection
from mcp_connections.mounts.fingerprint import fingerprint, secret_digest
from mcp_connections.mounts.secrets import SecretRef, secret_refs
from tests.mounts.resources import Data, connection, secret

FULL: dict[str, Any] = {
    "account": "tenant",
    "metadata": {"team": "a", "levels": [1, 2], "nested": {"x": None, "y": True}},
    "transport": {
        "http": {
            "url": "https://host.example/mcp",
            "headers": [
                {"name": "X-One", "value": "1"},
                {"name": "X-Two", "valueFrom": {"secretKeyRef": {"name": "s", "key": "two"}}},
            ],
            "caBundleRef": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}},
        }
    },
    "auth": {"bearer": {"secretKeyRef": {"name": "s", "key": "token"}}},
    "policy": {"timeouts": {"connect": "2s", "request": "30s", "max": "5m"}},
    "session": {"mode": "Shared"},
    "catalog": {"refreshInterval": "60s", "removalGrace": "10s"},
}
DATA: Data = {
    ("Secret", "default", "s"): {"two": b"2", "token": b"t", "unrelated": b"u"},
    ("ConfigMap", "default", "ca"): {"ca.crt": b"-----BEGIN CERTIFICATE-----"},
}
DEFAULTS: dict[str, Any] = {
    "proxyRef": {"name": "default"},
    "enabled": True,
    "account": "",
    "metadata": {},
    "auth": {"forwardHeaders": []},
    "tools": {"include": [], "exclude": [], "rename": {}},
    "resources": {"include": []},
    "prompts": {},
    "policy": {"timeouts": {"connect": "5s", "request": "60s", "max": "10m"}},
    "session": {"mode": "Isolated"},
    "catalog": {"refreshInterval": "300s", "removalGrace": "60s"},
}


def of(spec: dict[str, Any], data: Data | None = None, prefix: str = "p") -> str:
    return fingerprint(connection("c", **spec), prefix, DATA if data is None else data)


def test_it_is_a_short_hash_and_stays_the_same_over_releases() -> None:
    """A change of this value replaces every running mount at the next upgrade. Have a reason."""
    assert (of({}, {}), of(FULL)) == ("35d5f8622b429b97", "663d2da4a4fe0586")


@pytest.mark.parametrize("member", DEFAULTS)
def test_a_default_written_out_changes_nothing(member: str) -> None:
    assert of({member: DEFAULTS[member]}) == of({})


def test_neither_labels_annotations_status_nor_versions_change_it() -> None:
    plain = connection("c", **FULL)
    body = plain.model_dump(mode="json", by_alias=True, exclude_none=True)
    body["metadata"] |= {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "resourceVersion": "7",
        "generation": 9,
        "creationTimestamp": "2030-01-01T00:00:00Z",
    }
    body["status"] = {"observedGeneration": 3, "mount": {"fingerprint": "x"}}

    assert fingerprint(parse_connection(body), "p", DATA) == fingerprint(plain, "p", DATA)


def test_equal_durations_and_the_order_of_named_items_change_nothing() -> None:
    assert of({"catalog": {"refreshInterval": "5m"}}) == of({})
    assert of({"policy": {"timeouts": {"request": "1m", "max": "600s", "connect": "5000ms"}}}) == of({})
    headers = FULL["transport"]["http"]["headers"]
    turned = {**FULL, "transport": {"http": {**FULL["transport"]["http"], "headers": headers[::-1]}}}
    assert of(turned) == of(FULL)


@given(order=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_keys_changes_nothing(order: random.Random) -> None:
    assert of(_shuffled(FULL, order)) == of(FULL)


OAUTH: dict[str, Any] = {
    "tokenUrl": "https://idp.example/token",
    "clientId": "me",
    "clientSecret": {"secretKeyRef": {"name": "s", "key": "token"}},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "account": {"account": "other"},
    "enabled": {"enabled": False},
    "metadata value": {"metadata": {**FULL["metadata"], "team": "b"}},
    "metadata key": {"metadata": {**FULL["metadata"], "more": None}},
    "metadata order of a list": {"metadata": {**FULL["metadata"], "levels": [2, 1]}},
    "url": {"transport": {"http": {**FULL["transport"]["http"], "url": "https://host.example/mcp/"}}},
    "kind of transport": {"transport": {"sse": FULL["transport"]["http"]}},
    "header value": {
        "transport": {"http": {**FULL["transport"]["http"], "headers": [{"name": "X-One", "value": "2"}]}}
    },
    "header name": {"transport": {"http": {**FULL["transport"]["http"], "headers": [{"name": "X-Uno", "value": "1"}]}}},
    "certificates": {"transport": {"http": {k: v for k, v in FULL["transport"]["http"].items() if k != "caBundleRef"}}},
    "credential": {"auth": {}},
    "key of the credential": {"auth": {"bearer": {"secretKeyRef": {"name": "s", "key": "two"}}}},
    "timeout": {"policy": {"timeouts": {"connect": "3s"}}},
    "limit": {"policy": {**FULL["policy"], "maxConcurrency": 3}},
    "breaker with defaults": {"policy": {**FULL["policy"], "circuitBreaker": {}}},
    "session": {"session": {}},
    "refresh": {"catalog": {"removalGrace": "10s"}},
    "grace": {"catalog": {"refreshInterval": "60s"}},
    "pin": {"catalog": {**FULL["catalog"], "pin": "h"}},
    "selection": {"tools": {"include": ["a*"]}},
    "fetched token": {"auth": {"oauthClientCredentials": OAUTH}},
    "fetched token of another client": {"auth": {"oauthClientCredentials": {**OAUTH, "clientId": "other"}}},
    "fetched token for another resource": {
        "auth": {"oauthClientCredentials": {**OAUTH, "resource": "https://host.example/"}}
    },
    "fetched token with the secret in the form": {
        "auth": {"oauthClientCredentials": {**OAUTH, "clientAuthentication": "Post"}}
    },
    "forwarded headers": {"auth": {**FULL["auth"], "forwardHeaders": ["X-Request-Id"]}},
}


def test_everything_else_changes_it() -> None:
    prints = {name: of({**FULL, **change}) for name, change in VARIANTS.items()}
    prints["none"] = of(FULL)
    prints["prefix"] = of(FULL, prefix="q")
    prints["empty prefix"] = of(FULL, prefix="")
    prints["uid"] = fingerprint(connection("c", uid="other", **FULL), "p", DATA)
    prints["name"] = fingerprint(connection("d", uid="uid-c", **FULL), "p", DATA)
    for ref in secret_refs(connection("c", **FULL)):
        changed = {owner: dict(values) for owner, values in DATA.items()}
        changed[ref.owner][ref.key] += b"!"
        prints[f"value of {ref} {ref.key}"] = of(FULL, changed)
        del changed[ref.owner][ref.key]
        prints[f"no value of {ref} {ref.key}"] = of(FULL, changed)

    by_print: dict[str, list[str]] = {}
    for name, value in prints.items():
        by_print.setdefault(value, []).append(name)
    assert [names for names in by_print.values() if len(names) > 1] == []


def test_the_command_of_a_stdio_backend_is_ordered_and_its_environment_is_not() -> None:
    def stdio(command: list[str], env: list[dict[str, str]]) -> str:
        return of({"transport": {"stdio": {"command": command, "env": env}}})

    a, b = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}

    assert stdio(["x", "y", "z"], [a, b]) == stdio(["x", "y", "z"], [b, a])
    assert stdio(["x", "y", "z"], [a, b]) != stdio(["x", "z", "y"], [a, b])


def test_a_client_secret_changes_it_by_its_value_and_is_nowhere_in_it() -> None:
    spec = {"auth": {"oauthClientCredentials": {**OAUTH, "clientAuthentication": "Basic", "scopes": []}}}
    rotated: Data = {**DATA, ("Secret", "default", "s"): {**DATA["Secret", "default", "s"], "token": b"rotated"}}

    assert of(spec) == of({"auth": {"oauthClientCredentials": OAUTH}})
    assert of(spec, rotated) != of(spec)


def test_data_nobody_refers_to_changes_nothing() -> None:
    changed: Data = {**DATA, **secret("another", k=b"v")}
    changed["Secret", "default", "s"] = {**DATA["Secret", "default", "s"], "unrelated": b"changed"}

    assert of(FULL, changed) == of(FULL)


NAMES = st.sampled_from(["a", "b", "ab", "a-b"])
VALUES = st.one_of(st.none(), st.binary(max_size=6), st.sampled_from([b"1:a", b"a2:", b";", b""]))


@given(one=st.tuples(NAMES, NAMES, VALUES, VALUES), other=st.tuples(NAMES, NAMES, VALUES, VALUES))
@settings(max_examples=150, deadline=None)
def test_digests_are_equal_only_for_equal_data(
    one: tuple[str, str, bytes | None, bytes | None], other: tuple[str, str, bytes | None, bytes | None]
) -> None:
    """Values must not be able to imitate names, keys or each other across their borders."""

    def facts(case: tuple[str, str, bytes | None, bytes | None]) -> tuple[McpConnection, Data]:
        name, token, first, second = case
        headers = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": token}}}]
        bearer = {"bearer": {"secretKeyRef": {"name": "s", "key": "k"}}}
        subject = connection("c", transport={"http": {"url": "http://x", "headers": headers}}, auth=bearer)
        values = {(name, token): first, ("s", "k"): second}
        data: Data = {}
        for (owner, value_key), value in values.items():
            if value is not None:
                data.setdefault(("Secret", "default", owner), {})[value_key] = value
        return subject, data

    assert (secret_digest(*facts(one)) == secret_digest(*facts(other))) == (one == other)


def test_every_reference_is_found_wherever_it_is() -> None:
    found = secret_refs(
        connection(
            "c",
            transport=FULL["transport"],
            auth={
                "oauthClientCredentials": {
                    "tokenUrl": "https://idp.example/token",
                    "clientId": "me",
                    "clientSecret": {"secretKeyRef": {"name": "idp", "key": "secret"}},
                }
            },
        )
    )

    assert found == {
        SecretRef(kind="Secret", namespace="default", name="s", key="two"),
        SecretRef(kind="ConfigMap", namespace="default", name="ca", key="ca.crt"),
        SecretRef(kind="Secret", namespace="default", name="idp", key="secret"),
    }


def _shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {each: _shuffled(value[each], order) for each in keys}
    if isinstance(value, list):
        return [_shuffled(item, order) for item in value]
    return value
