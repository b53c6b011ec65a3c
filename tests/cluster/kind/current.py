"""``CLUSTER=current``: the cluster that kubectl talks to here, whoever made it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.binaries import find_or_prepare
from tests.cluster.cache import Say
from tests.cluster.kind.commands import run
from tests.cluster.kind.engines import find_or_start
from tests.cluster.kind.product_image import product_image
from tests.cluster.kind.programs import kind
from tests.cluster.version import Unavailable

LOAD_SECONDS = 300.0


def image_for_current(say: Say) -> str:
    """The image to test there: ``IMAGE``, or of a kind cluster one that is built and loaded. Raises Unavailable."""
    kubectl = find_or_prepare(say) / "kubectl"
    context = run([kubectl, "config", "current-context"], seconds=30).strip()
    run([kubectl, "get", "--raw", "/readyz"], seconds=60)
    if image := os.environ.get("IMAGE"):
        return image
    if not context.startswith("kind-"):
        raise Unavailable(
            f"The context {context} is no kind cluster, so no image can be loaded into it. Build one (docker build), "
            "push it to where its nodes pull from, and name it: make e2e CLUSTER=current IMAGE=example.org/name:tag"
        )
    engine = find_or_start(say)
    image = product_image(engine, say)
    name = context.removeprefix("kind-")
    load: list[str | Path] = [kind(say), "load", "docker-image", image, "--name", name]
    run(load, seconds=LOAD_SECONDS, environment=engine.environment)
    return image
