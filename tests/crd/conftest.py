"""Fixtures of the tests that run on a real API server."""

from __future__ import annotations

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.crd.resource_api import ResourceApi


@pytest.fixture
def resource_api(control_plane: ControlPlane, namespace: str) -> ResourceApi:
    """Resources in a fresh namespace."""
    return ResourceApi(control_plane, namespace)


@pytest.fixture(scope="session")
def dry_run(control_plane: ControlPlane) -> ResourceApi:
    """Resources that are judged and never stored, so one namespace serves all tests."""
    return ResourceApi(control_plane, "default")
