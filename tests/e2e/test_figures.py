"""How long a change takes until a connected client has it, on an installed release that nothing else disturbs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api, CustomObjectsApi

from mcp_connections.api.connection import PLURAL
from mcp_connections.api.meta import GROUP, VERSION
from tests.e2e.conftest import serve
from tests.e2e.figures import Figures
from tests.e2e.pods import PORT, from_secret, mcp_connection
from tests.e2e.release import SERVICE, Release, kubeconfig
from tests.e2e.sessions import is_callable, session, until
from tests.proxy.client import Client

pytestmark = pytest.mark.usefixtures("alone")
CONNECTIONS = 20
ROTATIONS = 10
LOOK = 0.02
REQUEST_SECONDS = 60
MOUNT: Any = {"group": GROUP, "version": VERSION, "plural": PLURAL}


class Api:
    """The API server for one namespace, without the time that kubectl takes to start."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._resources = CustomObjectsApi(api)
        self._core = CoreV1Api(api)
        self._common: Any = {"namespace": namespace, "_request_timeout": REQUEST_SECONDS}

    async def create(self, body: dict[str, Any]) -> None:
        """A connection comes."""
        await self._resources.create_namespaced_custom_object(**MOUNT, **self._common, body=body)

    async def delete(self, name: str) -> None:
        """A connection goes."""
        await self._resources.delete_namespaced_custom_object(**MOUNT, **self._common, name=name)

    async def set_secret(self, name: str, key: str, value: str) -> None:
        """A Secret changes."""
        await self._core.patch_namespaced_secret(name=name, body={"stringData": {key: value}}, **self._common)


@pytest.fixture
async def api(release: Release) -> AsyncIterator[Api]:
    configuration = Configuration()
    await config.load_kube_config(config_file=str(kubeconfig()), client_configuration=configuration)
    async with ApiClient(configuration) as client:
        yield Api(client, release.namespace)


async def test_changes_reach_a_connected_client(release: Release, image: str, api: Api, figures: Figures) -> None:
    serve(release, image)
    release.kubectl.run("create", "secret", "generic", "key", "--from-literal=key=value")
    pods = release.proxy_uids()
    names = [f"more-{number}" for number in range(CONNECTIONS)]

    async with session(release.kubectl, SERVICE) as client:
        applied = [await apply(api, client, name) for name in names]
        rotated = [await rotate(api, client, f"value-{turn}") for turn in range(ROTATIONS)]
        deleted = [await delete(api, client, name) for name in names]
        assert {name.split("_")[0] for name in await client.names()} == {"numbers"}

    figures.spread("apply to callable", applied, goal=2)
    figures.spread("Secret rotation to new header at the backend", rotated, goal=5)
    figures.spread("delete to tools gone for a connected client", deleted, goal=2)
    assert release.proxy_uids() == pods


async def apply(api: Api, client: Client, name: str) -> float:
    """Seconds from creating a connection until its tools can be called."""
    body = mcp_connection(name, f"http://numbers:{PORT}/mcp", headers=[from_secret("X-Key", "key", "key")])
    started = time.monotonic()
    await api.create(body)
    await until(lambda: is_callable(client, f"{name}_whereami"), f"{name} is callable", look=LOOK)
    return time.monotonic() - started


async def rotate(api: Api, client: Client, value: str) -> float:
    """Seconds from writing a Secret until calls carry the new value. All connections use it."""

    async def is_new() -> bool:
        return (await client.call("more-0_header", {"name": "x-key"})).text == value

    started = time.monotonic()
    await api.set_secret("key", "key", value)
    await until(is_new, "the header is new", look=LOOK)
    return time.monotonic() - started


async def delete(api: Api, client: Client, name: str) -> float:
    """Seconds from deleting a connection until no list has its tools."""

    async def is_gone() -> bool:
        return not any(each.startswith(f"{name}_") for each in await client.names())

    started = time.monotonic()
    await api.delete(name)
    await until(is_gone, f"the tools of {name} are gone", look=LOOK)
    return time.monotonic() - started
