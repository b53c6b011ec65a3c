"""``python -m tests.cluster.kind run COMMAND``: a cluster with the product's image in it, for as long as COMMAND runs.

COMMAND finds the cluster in KUBECONFIG and the image's name in MCP_CONNECTIONS_IMAGE; its exit code is the result.
``CLUSTER=current`` uses the present kubeconfig, ``KEEP=1`` leaves the cluster for the next run, and
``python -m tests.cluster.kind down`` removes it with everything that was started for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from tests.cluster.cache import cache_root, exclusive
from tests.cluster.kind import private_dockerd
from tests.cluster.kind.commands import succeeds
from tests.cluster.kind.current import image_for_current
from tests.cluster.kind.engine import Engine
from tests.cluster.kind.engines import find_or_start
from tests.cluster.kind.guard import Guard
from tests.cluster.kind.kind_cluster import KindCluster, kubeconfig
from tests.cluster.kind.node_image import node_image
from tests.cluster.kind.product_image import product_image
from tests.cluster.kind.programs import kind, present_kind
from tests.cluster.version import Unavailable

IMAGE = "MCP_CONNECTIONS_IMAGE"
_started = time.monotonic()


def _say(line: str) -> None:
    print(f"[{time.monotonic() - _started:5.0f} s] {line}", file=sys.stderr, flush=True)


def _run(command: Sequence[str]) -> int:
    if os.environ.get("CLUSTER") == "current":
        return _call(command, {IMAGE: image_for_current(_say)})
    keep = os.environ.get("KEEP", "") not in ("", "0")
    with exclusive(cache_root() / ".e2e.lock", _say), _cluster(keep) as image:
        return _call(command, {IMAGE: image, "KUBECONFIG": str(kubeconfig())})


@contextmanager
def _cluster(keep: bool) -> Iterator[str]:
    """The name of the product's image in a cluster, which is removed at the end unless it is to be kept."""
    guard = None if keep else Guard()
    try:
        engine = find_or_start(_say)
        cluster = KindCluster(engine, kind(_say))
        node = node_image(engine, _say)
        image = product_image(engine, _say)
        if not (keep and cluster.exists()):
            cluster.create(node, _say)
        _say("Loading the image ...")
        cluster.load(image)
        _say("The cluster is ready.")
        yield image
    finally:
        if not keep:
            _remove()
        if guard is not None:
            guard.release()
    if keep:
        _say(f"The cluster stays: KUBECONFIG={kubeconfig()}. To remove it: make e2e-down")


def _call(command: Sequence[str], environment: dict[str, str]) -> int:
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def _remove() -> None:
    """Delete the cluster on whichever Docker has it, then end the private daemon."""
    _say("Removing the cluster ...")
    try:
        if command := present_kind():
            for engine in (Engine(private=False), private_dockerd.running()):
                if engine is not None and succeeds(["docker", "info"], environment=engine.environment):
                    KindCluster(engine, command).delete()
    finally:
        private_dockerd.stop()
    _say("The cluster is gone.")


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main(words: Sequence[str]) -> int:
    """Do what the words of the command line say; the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        match words:
            case ["run", *command] if command:
                return _run(command)
            case ["down"]:
                with exclusive(cache_root() / ".e2e.lock", _say):
                    _remove()
                return 0
        print(__doc__, file=sys.stderr)
        return 2
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
