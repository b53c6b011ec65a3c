"""The Docker that the cluster runs on: the one that answers here, or a private daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.cluster.kind.commands import run, succeeds


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A Docker that answers."""

    private: bool
    """Started for this cache alone: without the machine's firewall rules, and without a bridge for builds."""
    environment: dict[str, str] = field(default_factory=dict)
    """What makes docker and kind use it."""

    def docker(self, *words: str, seconds: float = 60.0) -> str:
        """The output of a docker command. Raises Unavailable."""
        return run(["docker", *words], seconds=seconds, environment=self.environment)

    def has_image(self, tag: str) -> bool:
        """Whether the daemon holds the image."""
        return succeeds(["docker", "image", "inspect", tag], environment=self.environment)

    def build(self, *words: str, context: IO[bytes] | Path, seconds: float) -> str:
        """``docker build`` of a folder or a tar file, with the machine's network: a private daemon has no other. Raises
        Unavailable."""
        source, stdin = (str(context), None) if isinstance(context, Path) else ("-", context)
        environment = dict(self.environment)
        if not succeeds(["docker", "buildx", "version"], environment=environment):
            environment["DOCKER_BUILDKIT"] = (
                "0"  # newer clients want that plugin, unless they are asked for the old way
            )
        return run(
            ["docker", "build", "--network", "host", *words, source],
            seconds=seconds,
            environment=environment,
            stdin=stdin,
        )
