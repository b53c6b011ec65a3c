"""What somebody deletes or edits by hand is put right within half a minute, and what is theirs stays theirs."""

from __future__ import annotations

import asyncio
import json

import pytest

from mcp_connections.operator.cluster import DEPLOYMENT, SECRET, SERVICE, SERVICE_ACCOUNT, Kind, Object
from tests.operator.backend import Backend
from tests.operator.world import World, connection, proxy

SECONDS = 30.0
NAME = "mcp-proxy-default"
OBJECTS = (
    (DEPLOYMENT, NAME),
    (SERVICE, NAME),
    (SERVICE_ACCOUNT, NAME),
    (SECRET, f"{NAME}-mounts"),
)


async def restored(world: World, kind: Kind, name: str, before: Object) -> None:
    """Wait until what the operator applies of an object is as it was."""
    async with asyncio.timeout(SECONDS):
        while True:
            live = await world.cluster.get(kind, world.namespace, name)
            if live is not None and _content(live) == _content(before):
                return
            await asyncio.sleep(0.2)


def _content(obj: Object) -> Object:
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    if "clusterIP" in content.get("spec", {}):  # a new Service gets another
        content["spec"] = {name: value for name, value in content["spec"].items() if not name.startswith("clusterIP")}
    kept = {name: obj["metadata"].get(name) for name in ("labels", "ownerReferences")}
    return content | kept


@pytest.mark.parametrize(("kind", "name"), OBJECTS, ids=lambda each: each.kind if isinstance(each, Kind) else "")
async def test_a_deleted_object_comes_back(world: World, backend: Backend, kind: Kind, name: str) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = await world.cluster.get(kind, world.namespace, name)
    assert before is not None
    await world.kubectl("delete", kind.plural, name, "--timeout=30s")
    await restored(world, kind, name, before)
    await world.until_ready("notes")


EDITS: tuple[tuple[Kind, str, Object], ...] = (
    (
        DEPLOYMENT,
        NAME,
        {"spec": {"template": {"spec": {"containers": [{"name": "proxy", "args": ["--mounts", "/nowhere"]}]}}}},
    ),
    (SERVICE, NAME, {"spec": {"selector": {"app.kubernetes.io/name": "something-else"}}}),
    (SERVICE_ACCOUNT, NAME, {"automountServiceAccountToken": True}),
    (SECRET, f"{NAME}-mounts", {"data": {"mounts.json.gz": "bm8gZ3ppcA=="}}),
)


@pytest.mark.parametrize(("kind", "name", "edit"), EDITS, ids=lambda each: each.kind if isinstance(each, Kind) else "")
async def test_an_edited_object_is_put_right(
    world: World, backend: Backend, kind: Kind, name: str, edit: Object
) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = await world.cluster.get(kind, world.namespace, name)
    assert before is not None
    await world.kubectl("patch", kind.plural, name, "--type=strategic", "-p", json.dumps(edit))
    await restored(world, kind, name, before)
    await world.until_ready("notes")
