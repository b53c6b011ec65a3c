"""Equal names in two namespaces have nothing to do with one another, whether one operator serves both or each has its own."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.e2e.conftest import NewNamespace, NewRelease
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import PORT, backend, from_secret, mcp_connection, mcp_proxy
from tests.e2e.release import PROXY, SERVICE
from tests.e2e.sessions import session

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("scope", ["release-each", "cluster-wide"])
async def test_nam_07_equal_names_stay_apart(
    scope: Literal["release-each", "cluster-wide"], new_namespace: NewNamespace, new_release: NewRelease, image: str
) -> None:
    red, blue = new_namespace(), new_namespace()
    if scope == "release-each":
        for kubectl in (red, blue):
            new_release(kubectl).install()
    else:
        new_release(new_namespace()).install(watchAllNamespaces=True, proxy={"create": False})
        for kubectl in (red, blue):
            kubectl.apply(mcp_proxy())
    for kubectl, value in ((red, "red"), (blue, "blue")):
        kubectl.run("create", "secret", "generic", "key", f"--from-literal=key={value}")
        connection = mcp_connection(
            "numbers", f"http://numbers:{PORT}/mcp", headers=[from_secret("X-Key", "key", "key")]
        )
        kubectl.apply(*backend("numbers", image), connection)
    for kubectl in (red, blue):
        kubectl.wait("condition=Ready", "mcpc", "numbers")

    assert [await key_of(each) for each in (red, blue)] == ["red", "blue"]
    red.run("patch", "secret", "key", "--patch", '{"stringData": {"key": "crimson"}}')
    red.run("delete", "mcpc", "numbers")
    blue_pods = pods_of(blue)
    async with session(blue, SERVICE) as client:
        assert (await client.call("numbers_header", {"name": "x-key"})).text == "blue"
    assert pods_of(blue) == blue_pods


async def key_of(kubectl: Kubectl) -> str:
    """The header that the backend gets."""
    async with session(kubectl, SERVICE) as client:
        return (await client.call("numbers_header", {"name": "x-key"})).text
