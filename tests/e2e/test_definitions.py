"""The definitions on a cluster that runs pods: they go up and down with the release, and they outlive it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import NewNamespace, NewRelease, serve
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import PORT, backend, mcp_connection
from tests.e2e.release import SERVICE, Release, chart_of_version
from tests.e2e.sessions import is_callable, session, until

pytestmark = pytest.mark.usefixtures("alone")
NAME = "mcpconnections.mcp-connections.io"
URL = f"http://numbers:{PORT}/mcp"
WITH = {"enabled": True}


async def test_k8s_10_an_upgrade_brings_the_definitions_along_and_a_rollback_takes_them_back(
    release: Release, image: str, tmp_path: Path
) -> None:
    release.install("--take-ownership", crds=WITH)
    release.kubectl.apply(*backend("numbers", image), mcp_connection("numbers", URL))
    release.until_available()
    release.kubectl.wait("condition=Ready", "mcpc", "numbers")
    pods = release.proxy_uids()

    async with session(release.kubectl, SERVICE) as client:
        release.upgrade(chart=chart_of_version("99.0.0", tmp_path, novelty=True), crds=WITH)
        release.until_rolled_out()
        assert has_novelty(release.kubectl)
        release.kubectl.apply(mcp_connection("new", URL, novelty="x"))
        assert release.kubectl.get("mcpc", "new")["spec"]["novelty"] == "x"
        await until(lambda: is_callable(client, "new_whereami"), "a resource with the new field is served")

        release.rollback()
        release.until_rolled_out()
        assert not has_novelty(release.kubectl)
        release.kubectl.apply(mcp_connection("old", URL))
        for name in ("numbers", "new", "old"):
            await until(lambda: is_callable(client, f"{name}_whereami"), name)  # noqa: B023  (awaited at once)

    assert release.proxy_uids() == pods


async def test_k8s_11_definitions_and_resources_outlive_the_release_that_brought_them(
    new_namespace: NewNamespace, new_release: NewRelease, image: str
) -> None:
    first, second = (new_release(new_namespace()) for _ in range(2))
    first.install("--take-ownership", crds=WITH)
    first.kubectl.apply(mcp_connection("kept", URL))

    refused = second.install(crds=WITH, check=False)
    assert "cannot be imported into the current release" in refused
    serve(second, image)
    first.uninstall()

    assert first.kubectl.get("mcpc", "kept")["spec"]["transport"]["http"]["url"] == URL
    async with session(second.kubectl, SERVICE) as client:
        second.kubectl.apply(mcp_connection("late", URL))
        await until(lambda: is_callable(client, "late_whereami"), "the other release serves on")

    second.upgrade("--take-ownership", crds=WITH)
    second.uninstall()
    first.install("--take-ownership", crds=WITH)
    first.kubectl.apply(*backend("numbers", image))
    first.kubectl.wait("condition=Ready", "mcpc", "kept")


def has_novelty(kubectl: Kubectl) -> bool:
    (version,) = kubectl.get("crd", NAME)["spec"]["versions"]
    return "novelty" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
