"""Both versions of Helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.helm import Helm
from tests.chart.programs import find_or_build


@pytest.fixture(params=["helm4", "helm3"])
def helm_name(request: pytest.FixtureRequest) -> str:
    """Which Helm. What a test says holds of both."""
    name: str = request.param
    return name


@pytest.fixture
def helm(helm_name: str, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(helm_name, tmp_path / "helm")


@pytest.fixture(scope="session")
def kubectl_validate() -> Path:
    """The program kubectl-validate."""
    return find_or_build("kubectl-validate")
