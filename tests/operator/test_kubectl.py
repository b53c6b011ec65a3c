"""What a user sees through kubectl."""

from __future__ import annotations

from tests.operator.backend import Backend
from tests.operator.world import World, connection, proxy


async def test_columns_and_wait(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("notes", backend.url, prefix="memo"))

    waited = await world.kubectl("wait", "--for=condition=Ready", "mcpc/notes", "--timeout=80s")
    assert "condition met" in waited.stdout
    await world.kubectl("wait", "--for=condition=Available", "mcpp/default", "--timeout=80s")
    await world.kubectl("wait", "--for=condition=Programmed", "mcpp/default", "--timeout=80s")

    header, row = (await world.kubectl("get", "mcpc", "notes")).stdout.splitlines()
    assert header.split() == ["NAME", "PREFIX", "TRANSPORT", "TOOLS", "READY", "REASON", "AGE"]
    assert row.split()[:6] == ["notes", "memo", "http", "2", "True", "Ready"]

    header, row = (await world.kubectl("get", "mcpc", "notes", "-o", "wide")).stdout.splitlines()
    assert header.split()[7:] == ["URL", "PROTOCOL", "FINGERPRINT", "MESSAGE"]
    assert backend.url in row
    assert "Serving 2 tools" in row

    both = (await world.kubectl("get", "mcp")).stdout
    assert "mcpconnection.mcp-connections.io/notes" in both
    assert "mcpproxy.mcp-connections.io/default" in both


async def test_a_fresh_connection_explains_itself_before_any_operator_saw_it(world: World, backend: Backend) -> None:
    await world.operator.stop()

    await world.apply(connection("notes", backend.url))

    row = (await world.kubectl("get", "mcpc", "notes", "--no-headers")).stdout.split()
    assert row[:3] == ["notes", "Unknown", "Pending"]
    await world.operator.start()


async def test_events_tell_what_happened(world: World, backend: Backend) -> None:
    await world.apply(proxy(), connection("first", backend.url, prefix="same"))
    await world.until_ready("first")
    await world.apply(connection("second", backend.url, prefix="same"))
    await world.until_condition("second", "Accepted", "False")

    described = (await world.kubectl("describe", "mcpc", "second")).stdout
    assert "Warning" in described
    assert "PrefixConflict" in described
    assert "mcp-connections-operator" in described
