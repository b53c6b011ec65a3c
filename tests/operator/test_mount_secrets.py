"""Desired mounts survive the way through their Secrets, whatever their size."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator import mount_secrets as module
from mcp_connections.operator.mount_secrets import (
    MAX_PARTS,
    TooLarge,
    admin_secret,
    mount_secrets,
    new_token,
    part_key,
    token_of,
    unpack,
)
from tests.operator.resources import desired, mcp_proxy, mount_spec

PROXY = mcp_proxy()


def parts(secrets: list[dict[str, Any]]) -> list[bytes]:
    """What a pod finds in its files."""
    found = {key: base64.b64decode(value) for secret in secrets for key, value in secret["data"].items()}
    return [found[part_key(number)] for number in range(len(found))]


def incompressible(size: int) -> DesiredMounts:
    """Mounts that take about ``size`` bytes compressed."""
    text = random.Random(size).randbytes(size).hex()  # noqa: S311  (noise)
    return DesiredMounts(mounts=(mount_spec("big", metadata={"noise": text}),))


def test_small_mounts_are_one_secret_and_come_back_equal() -> None:
    mounts = desired("a", "b", separator=".", drain_timeout=7.5)

    secrets = mount_secrets(PROXY, mounts)

    assert [secret["metadata"]["name"] for secret in secrets] == ["mcp-proxy-default-mounts"]
    assert unpack(parts(secrets)) == mounts


def test_equal_mounts_make_equal_bodies() -> None:
    assert mount_secrets(PROXY, desired("a", "b")) == mount_secrets(PROXY, desired("a", "b"))


def test_large_mounts_are_split_and_come_back_equal() -> None:
    mounts = incompressible(2_000_000)

    secrets = mount_secrets(PROXY, mounts)

    assert len(secrets) == 3
    assert all(len(part) <= module.PART_SIZE for part in parts(secrets))
    assert unpack(parts(secrets)) == mounts


def test_parts_of_different_versions_are_told_apart() -> None:
    old, new = (parts(mount_secrets(PROXY, incompressible(size))) for size in (1_000_000, 1_000_001))

    for mixture in ([new[0], old[1]], new[:1], new[1:], [*new, old[1]], []):
        with pytest.raises(ValueError, match=r"parts of the mounts|JSON"):
            unpack(mixture)


def test_parts_that_are_no_longer_needed_are_emptied() -> None:
    secrets = mount_secrets(PROXY, desired("a"), existing=3)

    assert [len(secret["data"]) for secret in secrets] == [1, 0, 0]
    assert unpack(parts(secrets)) == desired("a")


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_SIZE", 10)

    with pytest.raises(TooLarge, match=rf"bytes compressed.*hold {MAX_PARTS * 10}"):
        mount_secrets(PROXY, desired("a"))


def test_a_token_comes_back_and_is_never_the_same_twice() -> None:
    token = new_token()

    assert token_of(admin_secret(PROXY, token)) == token
    assert new_token() != token
    assert len(token) >= 43


@pytest.mark.parametrize(
    "secret",
    [
        None,
        {},
        {"data": None},
        {"data": {}},
        {"data": {"token": ""}},
        {"data": {"token": "!!!"}},
        {"data": {"token": "/w=="}},
    ],
)
def test_a_secret_without_a_usable_token_has_none(secret: dict[str, Any] | None) -> None:
    assert token_of(secret) is None
