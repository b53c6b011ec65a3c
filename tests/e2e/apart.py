"""Two namespaces with everything of equal names, and what happens to one being nothing to the other."""

from __future__ import annotations

from tests.e2e.pods import PORT, backend, from_secret, mcp_connection
from tests.e2e.release import SERVICE, Release
from tests.e2e.sessions import session, until
from tests.proxy.client import Client

NOT_FOUND = 404


async def assert_apart(red: Release, blue: Release, image: str) -> None:
    """With a connection of one name in each, and a Secret of one name for it: what happens to red's is nothing to
    blue."""
    for release, value in ((red, "red"), (blue, "blue")):
        release.kubectl.run("create", "secret", "generic", "key", f"--from-literal=key={value}")
        headers = [from_secret("X-Key", "key", "key")]
        url = f"http://numbers:{PORT}/mcp"
        release.kubectl.apply(*backend("numbers", image), mcp_connection("numbers", url, headers=headers))
    for release in (red, blue):
        release.kubectl.wait("condition=Ready", "mcpc", "numbers")
        release.until_available()
    pods = blue.proxy_uids()

    async with session(red.kubectl, SERVICE) as of_red, session(blue.kubectl, SERVICE) as of_blue:
        assert [await key_of(each) for each in (of_red, of_blue)] == ["red", "blue"]
        red.kubectl.run("patch", "secret", "key", "--patch", '{"stringData": {"key": "crimson"}}')
        await until(lambda: has_key(of_red, "crimson"), "the new Secret is used")
        assert await key_of(of_blue) == "blue"

        red.kubectl.run("delete", "mcpc", "numbers")
        await until(lambda: has_nothing(of_red), "the one that was deleted is gone")
        assert await key_of(of_blue) == "blue"
        refused = await of_blue.request("tools/list", mcp_session_id=str(of_red.session_id))
        assert refused.status == NOT_FOUND
    assert blue.proxy_uids() == pods


async def key_of(client: Client) -> str:
    """The header that the backend gets."""
    return (await client.call("numbers_header", {"name": "x-key"})).text


async def has_key(client: Client, wanted: str) -> bool:
    """Whether it is that one."""
    return await key_of(client) == wanted


async def has_nothing(client: Client) -> bool:
    """Whether a client sees no tool at all."""
    return not await client.names()
