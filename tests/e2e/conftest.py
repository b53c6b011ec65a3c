"""Fixtures of the end-to-end tests: the cluster that ``make e2e`` has made, fresh namespaces, and releases in them."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.binaries import find_or_prepare
from tests.e2e import figures as measured
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import PORT, backend, mcp_connection
from tests.e2e.release import Release
from tests.e2e.sharing import Sharing

CRDS = Path(__file__).parents[2] / "crds"
IMAGE = "MCP_CONNECTIONS_IMAGE"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
"""The strictest of the Pod Security Standards: the API server refuses pods that ask for more."""

NewNamespace = Callable[[], Kubectl]
NewRelease = Callable[[Kubectl], Release]


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
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Sharing:
    """Between all processes of this run."""
    return Sharing(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def cluster(bare_cluster: Kubectl, sharing: Sharing) -> Kubectl:
    """The cluster, with the CRDs of ``crds/``."""
    with sharing.together():
        apply_crds(bare_cluster)
        bare_cluster.wait("condition=Established", "-f", str(CRDS))
    return bare_cluster


def apply_crds(cluster: Kubectl) -> None:
    """In Helm's name, so that releases may take them over and change them."""
    cluster.run("apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", str(CRDS))


@pytest.fixture
def alone(cluster: Kubectl, sharing: Sharing) -> Iterator[None]:
    """No other test runs meanwhile."""
    with sharing.alone():
        yield


@pytest.fixture
def new_namespace(cluster: Kubectl, sharing: Sharing) -> Iterator[NewNamespace]:
    """Makes fresh namespaces, which go with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(_namespace(cluster, sharing))


@pytest.fixture
def kubectl(new_namespace: NewNamespace) -> Kubectl:
    """kubectl in a fresh namespace, which takes only pods that ask for nothing. It goes with the test."""
    return new_namespace()


@pytest.fixture
def new_release(image: str, tmp_path: Path) -> NewRelease:
    """Makes releases, which are yet to be installed."""
    return lambda kubectl: Release(kubectl, image, tmp_path / f"helm-{kubectl.namespace}")


@pytest.fixture
def release(kubectl: Kubectl, new_release: NewRelease) -> Release:
    """A release in a fresh namespace that is yet to be installed."""
    return new_release(kubectl)


@pytest.fixture(scope="module")
def served(
    cluster: Kubectl, sharing: Sharing, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """An installed release for a module's tests: with a backend, and with the connection ``numbers`` to it ready."""
    with _namespace(cluster, sharing) as kubectl:
        release = Release(kubectl, image, tmp_path_factory.mktemp("release"))
        serve(release, image)
        yield release


def serve(release: Release, image: str) -> None:
    """Install a release; return when its connection ``numbers`` is ready."""
    release.install()
    release.kubectl.apply(*backend("numbers", image), mcp_connection("numbers", f"http://numbers:{PORT}/mcp"))
    release.until_available()
    release.kubectl.wait("condition=Ready", "mcpc", "numbers")


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> measured.Figures:
    """Takes what a test measures."""
    return measured.Figures(record_property)


@contextlib.contextmanager
def _namespace(cluster: Kubectl, sharing: Sharing) -> Iterator[Kubectl]:
    name = f"e2e-{uuid.uuid4().hex[:10]}"
    with sharing.together():
        cluster.run("create", "namespace", name)
        cluster.run("label", "namespace", name, RESTRICTED)
        try:
            yield cluster.within(name)
        finally:
            cluster.run("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that run alone come last, when no other has to wait for them."""
    items.sort(key=lambda item: "alone" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what the namespaces hold beside a failure."""
    report = yield
    given = getattr(item, "funcargs", {}).values() if report.failed else ()
    looked_at = [each.kubectl if isinstance(each, Release) else each for each in given]
    for kubectl in {each for each in looked_at if isinstance(each, Kubectl) and each.namespace}:
        for words in (
            ("get", "pods,services,mcpp,mcpc", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--all-pods", "--prefix", "--tail=40", "--selector=app.kubernetes.io/part-of"),
        ):
            text = f"kubectl --namespace {kubectl.namespace} {' '.join(words)}"
            report.sections.append((text, kubectl.run(*words, check=False)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    measured.summarise(terminalreporter)
