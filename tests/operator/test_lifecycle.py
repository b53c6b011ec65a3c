"""The main job on a real API server: apply a connection, call its tools, change it, take it away."""

from __future__ import annotations

from tests.operator.backend import Backend
from tests.operator.world import World, condition, connection, proxy


async def test_an_applied_connection_becomes_ready_and_its_tools_callable(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url))

    live = await world.until_ready("notes")

    assert await world.call("notes_echo", text="hello") == "hello"
    assert live["status"]["observedGeneration"] == live["metadata"]["generation"]
    assert live["status"]["catalog"]["tools"] == 2
    assert live["status"]["mount"]["replicas"] == 1
    assert [each["type"] for each in live["status"]["conditions"]] == ["Ready", "Accepted", "Mounted"]
    assert "finalizers" not in live["metadata"]
    assert condition(live, "Mounted")["status"] == "True"
