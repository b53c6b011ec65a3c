"""Which Docker a cluster runs on here."""

from __future__ import annotations

from tests.cluster.cache import Say
from tests.cluster.kind import private_dockerd
from tests.cluster.kind.commands import succeeds
from tests.cluster.kind.engine import Engine


def find_or_start(say: Say) -> Engine:
    """The Docker that answers as it is set up for this user, else a private daemon. Raises Unavailable."""
    if succeeds(["docker", "info"]):
        return Engine(private=False)
    return private_dockerd.start(say)
