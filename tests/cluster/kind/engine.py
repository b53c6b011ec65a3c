"""The Docker that the cluster runs on: the one that answers here, or a private daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.cluster.kind.commands import run, succeeds

TRY_SECONDS = 300.0


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
        return self._try("image", "inspect", tag)

    def forget_others(self, repository: str, *kept: str) -> None:
        """Remove what earlier versions left, which would fill the disk: the images of ``repository`` other than
        ``kept`` that nothing uses, and of a private daemon the nameless ones of builds of days ago."""
        listed = self.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository).split()
        if others := [tag for tag in listed if tag not in kept]:
            self._try("rmi", *others)
        if self.private:
            self._try("image", "prune", "--force", "--filter", "until=72h")

    def build(self, *words: str, context: IO[bytes] | Path, seconds: float) -> str:
        """``docker build`` of a folder or a tar file, with the machine's network: a private daemon has no other. Raises
        Unavailable."""
        source, stdin = (str(context), None) if isinstance(context, Path) else ("-", context)
        environment = dict(self.environment)
        if not succeeds(["docker", "buildx", "version"], environment=environment):
            # Without that plugin newer clients refuse, unless they are asked for the old way.
            environment["DOCKER_BUILDKIT"] = "0"
        return run(
            ["docker", "build", "--network", "host", *words, source],
            seconds=seconds,
            environment=environment,
            stdin=stdin,
        )

    def _try(self, *words: str) -> bool:
        return succeeds(["docker", *words], seconds=TRY_SECONDS, environment=self.environment)
