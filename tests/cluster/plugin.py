"""Fixtures for every test that needs Kubernetes: ``control_plane`` (one for each test worker) and ``namespace``."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def bare_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real API server without our CRDs. A machine that cannot have one fails here and is told what to install."""
    plane = ControlPlane(find_or_prepare(), tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def control_plane(bare_control_plane: ControlPlane) -> ControlPlane:
    """A real API server that serves the CRDs of ``crds/``."""
    bare_control_plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    bare_control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
    deadline = time.monotonic() + 60
    while len(_served_kinds(bare_control_plane)) < len(list(CRDS.glob("*.yaml"))):
        assert time.monotonic() < deadline, "the API server does not list the kinds of crds/"
        time.sleep(0.1)
    bare_control_plane.forget_discovery()
    return bare_control_plane


def _served_kinds(control_plane: ControlPlane) -> set[str]:
    """Kinds that the server lists by now; Established says only that it will."""
    listed = control_plane.kubectl("get", "--raw", "/apis/mcp-connections.io/v1alpha1", check=False)
    resources = json.loads(listed.stdout)["resources"] if listed.returncode == 0 else []
    return {resource["kind"] for resource in resources}


@pytest.fixture
def namespace(bare_control_plane: ControlPlane) -> str:
    """A fresh namespace. It stays: without a controller manager no namespace finishes deleting."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    bare_control_plane.kubectl("create", "namespace", name)
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the servers' last log lines beside a failure that may be theirs."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("bare_control_plane")
    if report.failed and isinstance(plane, ControlPlane):
        report.sections.append(("control plane", plane.log_tail()))
    return report
