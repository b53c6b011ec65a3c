"""The Go SDK's client in front of everything, in both eras."""

from __future__ import annotations

import asyncio

import pytest

from tests.clients.installed import go_program
from tests.clients.program import toured
from tests.clients.real_client_tour import EXPECTED
from tests.clients.site import BACKENDS, Site


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_the_go_client_gets_everything(site: Site, version: str) -> None:
    program = await asyncio.to_thread(go_program)
    report = await toured([str(program), site.proxy.url, version, *BACKENDS])
    assert report.pop("version") == version
    assert report == EXPECTED
