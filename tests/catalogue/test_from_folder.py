"""From manifests in a folder to the endpoint and the report: what a user writes is what clients see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_connections.cli.manifests import Overrides, read_desired
from mcp_connections.mounts.conditions import connection_status
from tests.backends.scripted import ScriptedBackend
from tests.mounts.resources import START, conditions_of, connection, messages_of
from tests.proxy.running import RunningProxy


class Site:
    """A folder with one connection, and the proxy that serves it."""

    def __init__(self, folder: Path, proxy: RunningProxy, backend: ScriptedBackend) -> None:
        self.folder = folder
        self.proxy = proxy
        self.backend = backend
        self._spec: dict[str, Any] = {}

    async def apply(self, **spec: Any) -> Any:
        """Write the manifest and reload."""
        self._spec = {"transport": {"http": {"url": self.backend.url}}, **spec}
        manifest = {
            "apiVersion": "mcp-connections.io/v1alpha1",
            "kind": "McpConnection",
            "metadata": {"name": "shop"},
            "spec": self._spec,
        }
        (self.folder / "shop.yaml").write_text(yaml.safe_dump(manifest))
        return await self.proxy.registry.apply(read_desired(self.folder, Overrides()))

    @property
    def status(self) -> dict[str, Any]:
        """The status body of the connection, made from what the registry reports."""
        desired = read_desired(self.folder, Overrides())
        key = desired.mounts[0].connection
        body = connection(key.name, **self._spec)
        body = body.model_copy(update={"metadata": body.metadata.model_copy(update={"uid": key.uid})})
        return connection_status(body, desired, [self.proxy.registry.report()], None, START)


@pytest.fixture
def site(tmp_path: Path, proxy: RunningProxy, backend: ScriptedBackend) -> Site:
    return Site(tmp_path, proxy, backend)


async def test_selection_and_names(site: Site, proxy: RunningProxy, backend: ScriptedBackend) -> None:
    for uri in ("file:///docs/a", "file:///key"):
        backend.resource(uri)
    await site.apply(
        tools={"include": ["b*", "gone"], "rename": {"bump": "count"}},
        resources={"exclude": ["*key"]},
        prompts={"exclude": ["*"]},
    )
    client = await proxy.client()
    assert await client.names() == ["shop_count"]
    assert await client.names("resources/list") == ["file:///shop/docs/a"]
    assert (await client.call("shop_count")).text == "1"
    assert (await client.call("shop_bump")).error["message"] == "Unknown tool: shop_bump"
    assert (await client.request("resources/read", {"uri": "file:///shop/key"})).error["code"] == -32002
    status = site.status
    assert conditions_of(status)["Ready"] == ("True", "Ready")
    assert messages_of(status)["Ready"] == "Serving 1 tool, 1 resource, 0 resource templates, 0 prompts."
    assert status["catalog"]["names"] == ["shop_count"]
    assert [(note["name"], note["reason"]) for note in status["catalog"]["notices"]] == [
        (
            "gone",
            "spec.tools.include: the pattern matches no tool of the backend. Correct or remove it.",
        ),
        ("*", "spec.prompts.exclude: the pattern matches no prompt of the backend. Correct or remove it."),
    ]


async def test_pin_review_accept(site: Site, proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await site.apply()
    pin = site.status["catalog"]["hash"]
    await site.apply(catalog={"pin": pin})
    assert conditions_of(site.status)["Ready"] == ("True", "Ready")

    await backend.until(lambda: any(session.listening for session in backend.live))
    backend.tool("refund")
    backend.notify_all("notifications/tools/list_changed")
    await proxy.until(lambda: not proxy.registry.report().mounts[0].ready)
    status = site.status
    assert conditions_of(status) == {
        "Ready": ("False", "CatalogChanged"),
        "Accepted": ("True", "Accepted"),
        "Mounted": ("True", "Mounted"),
    }
    seen = status["catalog"]["hash"]
    message = messages_of(status)["Ready"]
    assert all(part in message for part in (pin, seen, "Added: tool 'refund'", f"set spec.catalog.pin to {seen}"))
    assert status["catalog"]["names"] == ["shop_echo", "shop_bump"]
    assert status["server"]["name"] == "scripted"

    result = await site.apply(catalog={"pin": seen})
    assert len(result.replaced) == 1
    assert conditions_of(site.status)["Ready"] == ("True", "Ready")
    assert site.status["catalog"]["names"] == ["shop_echo", "shop_bump", "shop_refund"]


async def test_removal_grace_of_nothing(site: Site, proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await site.apply(catalog={"removalGrace": "0s"})
    client = await proxy.client()
    await backend.stop()
    await client.call("shop_bump")
    await proxy.until(lambda: not proxy.registry.report().mounts[0].ready)
    assert await client.names() == []
    assert site.status["catalog"]["tools"] == 0
