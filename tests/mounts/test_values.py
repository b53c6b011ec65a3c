"""Values behind references: trimmed, checked, never told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.secrets import FieldRef, SecretData, SecretRef
from mcp_connections.mounts.values import UnusableValue, bearer_token, certificates, env_value, header_value
from tests.mounts.resources import secret

USE = FieldRef(field="spec.auth.bearer.secretKeyRef", ref=SecretRef(namespace="default", name="s", key="k"))
READERS = [header_value, bearer_token, env_value, certificates]
Reader = Callable[[FieldRef, SecretData], str]


@pytest.mark.parametrize(
    ("read", "raw", "expected"),
    [
        (header_value, b"value", "value"),
        (header_value, b" \t value one \r\n\n", "value one"),
        (header_value, b"a\tb", "a\tb"),
        (header_value, "schl\u00fcssel".encode(), "schl\u00fcssel"),
        (bearer_token, b"tok\n", "tok"),
        (bearer_token, b"Bearer tok", "tok"),
        (bearer_token, b"bearer \t tok ", "tok"),
        (bearer_token, b"BEARER\ttok", "tok"),
        (bearer_token, b"Bearertok", "Bearertok"),
        (bearer_token, b"Basic dXNlcg==", "Basic dXNlcg=="),
        (env_value, b"\nline one\nline two\n", "line one\nline two"),
        (certificates, b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n", None),
    ],
)
def test_what_is_made_of_a_value(read: Reader, raw: bytes, expected: str | None) -> None:
    assert read(USE, secret("s", k=raw)) == (raw.decode().strip() if expected is None else expected)


@pytest.mark.parametrize(
    ("read", "raw", "problem"),
    [
        (header_value, b"hun\nter2", "line break"),
        (header_value, b"hun\rter2", "line break"),
        (header_value, b"hun\x00ter2", "control character"),
        (bearer_token, b"hun\nter2", "line break"),
        (bearer_token, b" Bearer \n", "without a token"),
        (env_value, b"hun\x00ter2", "NUL"),
        (certificates, b"hunter2", "no PEM certificate"),
        *((read, b"", "is empty") for read in READERS),
        *((read, b" \n", "is empty") for read in READERS),
        *((read, b"hunter2\xff", "is not UTF-8") for read in READERS),
    ],
)
def test_what_cannot_be_used(read: Reader, raw: bytes, problem: str) -> None:
    with pytest.raises(UnusableValue) as caught:
        read(USE, secret("s", k=raw))

    assert caught.value.reason == "InvalidSecret"
    message = str(caught.value)
    for part in (problem, "Secret default/s", "'k'", "spec.auth.bearer.secretKeyRef"):
        assert part in message
    assert "hun" not in message


def test_what_is_missing() -> None:
    with pytest.raises(UnusableValue, match=r"Secret default/s, which spec\.auth.* does not exist") as no_object:
        header_value(USE, {})
    with pytest.raises(UnusableValue, match=r"Secret default/s has no key 'k'") as no_key:
        header_value(USE, secret("s", other=b"x"))

    assert (no_object.value.reason, no_key.value.reason) == ("SecretNotFound", "KeyNotFound")


@given(raw=st.one_of(st.binary(max_size=30), st.text(max_size=20).map(str.encode)), read=st.sampled_from(READERS))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_clean_value_or_a_rejection_that_does_not_tell(raw: bytes, read: Reader) -> None:
    value, complaint = "", ""
    try:
        value = read(USE, secret("s", k=b"~~" + raw + b"~~"))
    except UnusableValue as unusable:
        complaint = str(unusable)

    assert bool(value) != bool(complaint)
    assert "~~" not in complaint
    assert value == value.strip()
    assert read not in (header_value, bearer_token) or not any(character in value for character in "\r\n\0")
