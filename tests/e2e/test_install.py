"""From nothing to an endpoint that answers, by the commands that the notes of the release name."""

from __future__ import annotations

import time

import pytest

from tests.e2e.figures import Figures
from tests.e2e.pods import PORT, backend, mcp_connection
from tests.e2e.release import SERVICE, Release
from tests.e2e.sessions import session

pytestmark = pytest.mark.usefixtures("alone")


async def test_an_installed_release_answers(release: Release, image: str, figures: Figures) -> None:
    """With the definitions, which it takes over from the tests."""
    started = time.monotonic()
    said = release.install("--take-ownership", crds={"enabled": True})
    release.until_available()
    async with session(release.kubectl, SERVICE) as client:
        assert await client.names() == []
        figures.seconds("helm install to endpoint answering", time.monotonic() - started)

    assert f"helm test mcp -n {release.namespace}" in said
    assert "with 0 tools." in release.test()
    release.kubectl.apply(*backend("numbers", image), mcp_connection("numbers", f"http://numbers:{PORT}/mcp"))
    release.kubectl.wait("condition=Ready", "mcpc", "numbers")
    assert "with 7 tools." in release.test()
    (pod,) = release.operator_pods()
    assert "lacks a right" not in release.kubectl.run("logs", pod["metadata"]["name"])
