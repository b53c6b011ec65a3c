"""The product's image, built by its own Dockerfile; on the stock base where that can be had."""

from __future__ import annotations

from pathlib import Path

from mcp_connections import __version__
from tests.cluster.cache import Say
from tests.cluster.kind.base_image import base_image
from tests.cluster.kind.commands import run
from tests.cluster.kind.engine import Engine
from tests.cluster.kind.registry import pulled
from tests.cluster.kind.versions import STOCK_BASE
from tests.cluster.version import Unavailable

ROOT = Path(__file__).parents[3]
REPOSITORY = "localhost/mcp-connections/mcp-connections"
"""A name that no registry answers to: the node has the image, or the pod fails."""
BUILD_SECONDS = 20 * 60.0


def product_image(engine: Engine, say: Say) -> str:
    """The tag of an image of the work tree as it is now; tags differ where images do. Raises Unavailable."""
    base = STOCK_BASE if pulled(engine, STOCK_BASE) else base_image(engine, say)
    say(f"Building the product's image on {base} ...")
    arguments = {"BASE": base, "VERSION": __version__, "REVISION": _revision()}
    flags = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    engine.build("--tag", f"{REPOSITORY}:built", *flags, context=ROOT, seconds=BUILD_SECONDS)
    identity = engine.docker("image", "inspect", "--format", "{{.Id}}", f"{REPOSITORY}:built").strip()
    tag = f"{REPOSITORY}:{identity.removeprefix('sha256:')[:12]}"
    engine.docker("tag", f"{REPOSITORY}:built", tag)
    engine.forget_others(REPOSITORY, tag, f"{REPOSITORY}:built")
    return tag


def _revision() -> str:
    try:
        return run(["git", "rev-parse", "HEAD"], seconds=30, folder=ROOT).strip()
    except Unavailable:
        return "unknown"
