"""What somebody deletes or edits by hand is put right within half a minute, and what is theirs stays theirs."""

from __future__ import annotations

import asyncio
import json

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


async def present(world: World) -> dict[str, Object]:
    """The objects as they are, by kind."""
    found = {kind.kind: await world.cluster.get(kind, world.namespace, name) for kind, name in OBJECTS}
    return {kind: obj for kind, obj in found.items() if obj is not None}


async def restored(world: World, before: dict[str, Object]) -> None:
    """Wait until what the operator applies of each object is as it was."""
    assert len(before) == len(OBJECTS)
    wrong: set[str] = set()
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                now = await present(world)
                wrong = {
                    kind for kind, obj in before.items() if kind not in now or _content(now[kind]) != _content(obj)
                }
                if not wrong:
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"not put right within {SECONDS:g} s: {sorted(wrong)}\n{world.logs()}") from None


def _content(obj: Object) -> Object:
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    if "clusterIP" in content.get("spec", {}):  # a new Service gets another
        content["spec"] = {name: value for name, value in content["spec"].items() if not name.startswith("clusterIP")}
    kept = {name: obj["metadata"].get(name) for name in ("labels", "ownerReferences")}
    return content | kept


async def test_what_is_deleted_comes_back(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = await present(world)
    for kind, name in OBJECTS:
        await world.kubectl("delete", kind.plural, name, "--timeout=30s")
    await restored(world, before)
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


async def test_what_is_edited_is_put_right(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))
    await world.until_ready("notes")
    before = await present(world)
    for kind, name, edit in EDITS:
        await world.kubectl("patch", kind.plural, name, "--type=strategic", "-p", json.dumps(edit))
    await restored(world, before)
    await world.until_ready("notes")
