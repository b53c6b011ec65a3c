"""The TypeScript SDK's clients in front of everything: version 1, and version 2 in both of its modes."""

from __future__ import annotations

import asyncio

import pytest

from tests.clients.installed import TYPESCRIPT, node, npm_packages
from tests.clients.program import toured
from tests.clients.real_client_tour import EXPECTED
from tests.clients.site import BACKENDS, Site


@pytest.mark.parametrize(
    ("kind", "version"), [("v1", "2025-11-25"), ("v2-legacy", "2025-11-25"), ("v2-auto", "2026-07-28")]
)
async def test_the_typescript_client_gets_everything(site: Site, kind: str, version: str) -> None:
    packages = await asyncio.to_thread(npm_packages)
    command = [node(), str(TYPESCRIPT / "tour.mjs"), str(packages), site.proxy.url, kind, *BACKENDS]
    report = await toured(command)
    assert report.pop("version") == version
    assert report == EXPECTED
