"""What was installed can be removed, in whatever order, without anything that stays behind for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import CRDS, serve
from tests.e2e.figures import Figures
from tests.e2e.pods import PORT, mcp_connection
from tests.e2e.release import Release

GOAL = 60.0
Step = Callable[[Release], object]


def uninstall(release: Release) -> None:
    release.uninstall()


def connections(release: Release) -> None:
    release.kubectl.run("delete", "mcpc", "--all")


def namespace(release: Release) -> None:
    release.kubectl.run("delete", "namespace", release.namespace)


@pytest.mark.parametrize(
    "order",
    [(uninstall, namespace), (uninstall, connections, namespace), (connections, uninstall, namespace), (namespace,)],
    ids=lambda order: "-".join(step.__name__ for step in order),
)
def test_k8s_07_everything_goes_in_every_order(
    release: Release, image: str, order: tuple[Step, ...], figures: Figures
) -> None:
    serve(release, image)
    for name in ("second", "third"):
        release.kubectl.apply(mcp_connection(name, f"http://numbers:{PORT}/mcp"))
    release.kubectl.wait("condition=Ready", "mcpc", "--all")

    started = time.monotonic()
    for step in order:
        step(release)
    figures.seconds(f"removal: {', '.join(step.__name__ for step in order)}", time.monotonic() - started, goal=GOAL)

    assert "NotFound" in release.kubectl.run("get", "namespace", release.namespace, check=False)
    assert len(release.kubectl.run("get", "-f", str(CRDS), "--output=name").split()) == 2
