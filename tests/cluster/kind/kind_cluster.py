"""Makes and removes the one kind cluster of the end-to-end tests, and brings images to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import Say, cache_root
from tests.cluster.kind import private_dockerd
from tests.cluster.kind.commands import run, succeeds
from tests.cluster.kind.engine import Engine
from tests.cluster.kind.node_image import NodeImage

NAME = "mcp-connections-e2e"
NETWORK = "kind"
CREATE_SECONDS = 10 * 60.0
"""Twenty seconds on 2 idle cores."""
READY = "300s"
DELETE_SECONDS = 180.0
LOAD_SECONDS = 300.0


def kubeconfig() -> Path:
    """Where the cluster's administrator credentials are while it is there."""
    return cache_root() / "e2e.kubeconfig"


@dataclass(frozen=True)
class KindCluster:
    """The cluster on one Docker, which exists after ``create`` and until ``delete``."""

    engine: Engine
    kind: Path

    def exists(self) -> bool:
        """Whether it is there and its API server is ready."""
        ask = ["kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "--raw", "/readyz"]
        return NAME in self._kind("get", "clusters", seconds=60).split() and succeeds(
            ["docker", "exec", f"{NAME}-control-plane", *ask], environment=self.engine.environment
        )

    def create(self, image: NodeImage, say: Say) -> None:
        """Make it, in place of one that an earlier run left. Raises Unavailable."""
        self.delete()
        if self.engine.private:
            self._make_network()
        say(f"Creating a kind cluster of {image.tag} ...")
        self._kind(
            *("create", "cluster", "--image", image.tag, "--config", str(image.config), "--wait", READY),
            seconds=CREATE_SECONDS,
        )

    def delete(self) -> None:
        """Remove it and its credentials; does nothing where there is none. Raises Unavailable."""
        self._kind("delete", "cluster", seconds=DELETE_SECONDS)
        kubeconfig().unlink(missing_ok=True)
        if self.engine.private:
            if self._has_network():
                self.engine.docker("network", "rm", NETWORK)
            # A daemon that was killed forgets that the volumes of its containers were to go with them.
            self.engine.docker("volume", "prune", "--force")

    def load(self, image: str) -> None:
        """Bring an image to the node. Raises Unavailable."""
        self._kind("load", "docker-image", image, seconds=LOAD_SECONDS)

    def _make_network(self) -> None:
        """kind makes one of its own where it finds none, with IPv6, which wants rules in the machine's firewall."""
        option = f"com.docker.network.bridge.name={private_dockerd.bridge()}"
        self.engine.docker("network", "create", "--driver", "bridge", "--opt", option, NETWORK)

    def _has_network(self) -> bool:
        return succeeds(["docker", "network", "inspect", NETWORK], environment=self.engine.environment)

    def _kind(self, *words: str, seconds: float) -> str:
        named = () if words[0] == "get" else ("--name", NAME)
        environment = {**self.engine.environment, "KUBECONFIG": str(kubeconfig())}
        return run([self.kind, *words, *named], seconds=seconds, environment=environment)
