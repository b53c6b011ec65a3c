"""Connected clients are told of every change, through the proxy's pods and the Service in front of them."""

from __future__ import annotations

from tests.e2e.kubectl import SECONDS
from tests.e2e.pods import PORT, mcp_connection
from tests.e2e.release import SERVICE, Release
from tests.e2e.sessions import is_callable, session, until
from tests.proxy.client import Client

CHANGED = "notifications/tools/list_changed"
UNKNOWN = -32602


async def test_ntf_01_a_list_that_changes_at_the_backend_changes_for_clients(served: Release) -> None:
    async with session(served.kubectl, SERVICE) as client:
        await client.listen()
        assert "numbers_late" not in await client.names()

        await client.call("numbers_grow", {"name": "late"})
        await told(client, 1)

        assert "numbers_late" in await client.names()
        assert await is_callable(client, "numbers_late")


async def test_ntf_02_clients_are_told_of_connections_that_come_change_and_go(served: Release) -> None:
    """Once for each change."""
    async with session(served.kubectl, SERVICE) as client:
        await client.listen()

        served.kubectl.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp"))
        await told(client, 1)
        assert await is_callable(client, "more_whereami")

        served.kubectl.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp", prefix="other"))
        await told(client, 2)
        assert await is_callable(client, "other_whereami")
        assert (await client.call("more_whereami")).error["code"] == UNKNOWN

        served.kubectl.run("delete", "mcpc", "more")
        await told(client, 3)
        assert not [name for name in await client.names() if name.startswith("other_")]
        assert (await client.call("other_whereami")).error["code"] == UNKNOWN
        assert await is_callable(client, "numbers_whereami")
        assert len(client.heard_of(CHANGED)) == 3


async def told(client: Client, count: int) -> None:
    """Wait until a client has been told so many times."""

    async def is_told() -> bool:
        return len(client.heard_of(CHANGED)) >= count

    await until(is_told, f"the client is told {count} times within {SECONDS:.0f} s")
