"""Whether the registry of stock images is in reach of this machine."""

from __future__ import annotations

import urllib.error
import urllib.request
from functools import cache

from tests.cluster.kind.engine import Engine
from tests.cluster.version import Unavailable

REGISTRY = "https://registry-1.docker.io/v2/"
ASK_SECONDS = 8.0
PULL_SECONDS = 15 * 60.0


def pulled(engine: Engine, image: str) -> bool:
    """Whether ``engine`` holds the image, pulled first where the registry is in reach."""
    if engine.has_image(image):
        return True
    if not _in_reach():
        return False
    try:
        engine.docker("pull", "--quiet", image, seconds=PULL_SECONDS)
    except Unavailable:
        return False
    return True


@cache
def _in_reach() -> bool:
    try:
        with urllib.request.urlopen(REGISTRY, timeout=ASK_SECONDS):
            return True
    except urllib.error.HTTPError:
        return True  # it wants a token, which docker gets
    except OSError:
        return False
