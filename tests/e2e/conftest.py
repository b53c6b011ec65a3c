"""Fixtures of the end-to-end tests: the cluster that ``make e2e`` has made, the image in it, and a fresh namespace."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.binaries import find_or_prepare
from tests.e2e.kubectl import Kubectl

CRDS = Path(__file__).parents[2] / "crds"
IMAGE = "MCP_CONNECTIONS_IMAGE"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
"""The strictest of the Pod Security Standards: the API server refuses pods that ask for more."""


@pytest.fixture(scope="session")
def image() -> str:
    """Name of the product's image, which the nodes have."""
    if image := os.environ.get(IMAGE):
        return image
    pytest.fail(f"{IMAGE} does not name an image: these tests are run by make e2e, which sees to a cluster with one")


@pytest.fixture(scope="session")
def bare_cluster(image: str, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The cluster of KUBECONFIG, as it is."""
    return Kubectl(find_or_prepare() / "kubectl", tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def cluster(bare_cluster: Kubectl) -> Kubectl:
    """The cluster, with the CRDs of ``crds/``."""
    bare_cluster.run("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    bare_cluster.wait("condition=Established", "-f", str(CRDS))
    return bare_cluster


@pytest.fixture
def kubectl(cluster: Kubectl, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace, which takes only pods that ask for nothing. It goes with the test."""
    name = f"e2e-{uuid.uuid4().hex[:10]}"
    cluster.run("create", "namespace", name)
    cluster.run("label", "namespace", name, RESTRICTED)
    yield cluster.within(name)
    cluster.run("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what the namespace holds beside a failure."""
    report = yield
    kubectl = getattr(item, "funcargs", {}).get("kubectl")
    if report.failed and isinstance(kubectl, Kubectl):
        for words in (
            ("get", "pods,services,mcpp,mcpc", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--all-pods", "--prefix", "--tail=40", "--selector=app.kubernetes.io/part-of"),
        ):
            report.sections.append((f"kubectl {' '.join(words)}", kubectl.run(*words, check=False)))
    return report
