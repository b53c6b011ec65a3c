"""Whole lives of a proxy's connections, step by step, against a log that was read and found right.

A log differs on purpose? Delete the file, run the test, read the new one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mounts.resources import connection, secret
from tests.mounts.simulation import World

GOLDEN = Path(__file__).parent / "golden"
BEARER: dict[str, Any] = {"auth": {"bearer": {"secretKeyRef": {"name": "token", "key": "value"}}}}


def ordinary_life(world: World) -> None:
    """Apply, connect, edit, rotate, disable, enable, fail, recover, delete, create again."""
    world.apply(connection("git", age=1, **BEARER), connection("docs", age=2))
    world.step("two connections are applied; the Secret of one is missing")
    world.connect("docs")
    world.data |= secret("token", value=b"one")
    world.step("docs connects; the Secret is created")
    world.fail("git", "Unauthorized", "HTTP 401 from the backend. Check spec.auth.")
    world.step("the backend refuses the token")
    world.data |= secret("token", value=b"two")
    world.step("the Secret is rotated, a call is still in flight")
    world.connect("git")
    for replica in world.replicas:
        replica.close_all()
    world.step("git connects, the old mount is closed")
    world.apply(connection("docs", age=2, generation=2, metadata={"team": "a"}))
    world.step("docs is edited")
    world.connect("docs")
    world.step("docs connects again")
    world.apply(connection("docs", age=2, generation=3, metadata={"team": "a"}, enabled=False))
    world.step("docs is disabled")
    for replica in world.replicas:
        replica.close_all()
    world.step("docs has drained")
    world.apply(connection("docs", age=2, generation=4, metadata={"team": "a"}))
    world.step("docs is enabled")
    world.connect("docs")
    world.step("docs connects")
    world.delete("docs")
    world.step("docs is deleted with a call in flight")
    world.apply(connection("docs", age=200, uid="uid-docs-2"))
    world.step("docs is created again before that call ends")
    world.connect("docs")
    for replica in world.replicas:
        replica.close_all()
    world.step("all is well")


def clash_and_release(world: World) -> None:
    """A prefix conflict, its release by an edit and by a deletion, and a third that was never in the way."""
    world.apply(connection("alpha", age=1, prefix="redis"))
    world.step("alpha takes the prefix redis")
    world.connect("alpha")
    world.apply(connection("beta", age=2, prefix="redis"), connection("gamma", age=3, prefix="redis_ft"))
    world.step("beta wants it too, gamma wants redis_ft")
    world.apply(connection("beta", age=2, generation=2, prefix="cache"))
    world.step("beta is edited out of the way")
    world.connect("beta")
    world.delete("alpha")
    world.step("alpha is deleted, gamma is released")
    world.connect("gamma")
    world.apply(connection("delta", age=0, prefix="redis"))
    world.step("delta, which is older, is enabled again: the younger gives way although it serves")
    for replica in world.replicas:
        replica.close_all()
    world.connect("delta")
    world.step("gamma has drained")


def trouble(world: World) -> None:
    """Replicas that do not answer, backends that come and go."""
    world.apply(connection("git", age=1), connection("docs", age=2))
    world.step("two connections are applied")
    world.connect("git")
    world.connect("docs")
    world.step("both connect")
    world.replicas[1].reachable = False
    world.step("one replica does not answer")
    world.apply(connection("git", age=1, generation=2, account="b"))
    world.step("git is edited meanwhile")
    world.replicas[0].close_all()
    world.step("the replica that answers has drained")
    world.replicas[0].reachable = False
    world.step("no replica answers")
    for replica in world.replicas:
        replica.reachable = True
    world.step("both are back")
    world.connect("git")
    for replica in world.replicas:
        replica.close_all()
    world.step("git connects")
    world.fail("docs", "Unreachable", "Connection refused. Retrying.")
    world.step("the backend of docs is gone")
    world.connect("docs")
    world.step("it is back")


STORIES = {"ordinary_life": (ordinary_life, 1), "clash_and_release": (clash_and_release, 1), "trouble": (trouble, 2)}


def tell(name: str, seed: int = 0) -> str:
    story, replicas = STORIES[name]
    world = World(replicas=replicas, seed=seed)
    story(world)
    return "\n".join(world.log).strip() + "\n"


@pytest.mark.parametrize("name", STORIES)
def test_life(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    told = tell(name)
    if not path.exists():
        path.write_text(told)
        pytest.fail(f"{path} was missing and is written now: read it, then run again.")

    assert told == path.read_text()


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_in_which_resources_are_listed_changes_nothing(name: str, seed: int) -> None:
    assert tell(name, seed) == tell(name)
