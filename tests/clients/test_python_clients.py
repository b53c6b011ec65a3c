"""The Python SDK's client and FastMCP's in front of everything, in both of their modes."""

from __future__ import annotations

import pytest

from tests.clients.python_tour import FastMcpTraveller, SdkTraveller, toured
from tests.clients.real_client_tour import EXPECTED
from tests.clients.site import BACKENDS, Site

MODES = [("auto", "2026-07-28"), ("legacy", "2025-11-25")]


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # what is deprecated has to work nevertheless
@pytest.mark.parametrize(("mode", "version"), MODES)
@pytest.mark.parametrize("traveller", [SdkTraveller, FastMcpTraveller])
async def test_the_python_client_gets_everything(
    site: Site, traveller: type[SdkTraveller | FastMcpTraveller], mode: str, version: str
) -> None:
    report = await toured(traveller(site.proxy.url, mode), BACKENDS)
    assert report.pop("version") == version
    assert report == EXPECTED
