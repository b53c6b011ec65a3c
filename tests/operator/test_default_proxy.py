"""The McpProxy that is made of a ConfigMap: what stands in its way is told once, and nothing is written in vain."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcp_connections.operator.cluster import EVENT, PROXY, Cluster
from mcp_connections.operator.default_proxy import KEY, ConfigMapName, DefaultProxy
from mcp_connections.operator.events import Recorder
from tests.cli.conftest import run
from tests.cluster.control_plane import ControlPlane
from tests.operator.world import proxy

NAME = "source"


class Source:
    """A ConfigMap, and what makes an McpProxy of it."""

    def __init__(self, plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
        self._plane = plane
        self.namespace = namespace
        self.cluster = cluster
        self.provider = DefaultProxy(cluster, ConfigMapName(namespace, NAME), Recorder(cluster))

    def write(self, text: str) -> None:
        """Create or change the ConfigMap."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {KEY: text}}
        self._plane.kubectl("-n", self.namespace, "apply", "-f", "-", input=json.dumps(body))

    async def live(self) -> dict[str, Any] | None:
        """The McpProxy."""
        return await self.cluster.get(PROXY, self.namespace, "default")


@pytest.fixture
def source(control_plane: ControlPlane, namespace: str, cluster: Cluster) -> Source:
    """No ConfigMap yet."""
    return Source(control_plane, namespace, cluster)


async def test_a_missing_config_map_is_told_once(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        await source.provider.look()

    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"from ConfigMap {source.namespace}/{NAME}: it does not exist." in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its key mcpproxy.yaml must hold one McpProxy of mcp-connections.io/v1alpha1 with a name"),
        ("[", "its key mcpproxy.yaml is not YAML: "),
        ("a: b", "must hold one McpProxy"),
        (json.dumps(proxy() | {"kind": "McpConnection"}), "must hold one McpProxy"),
        (json.dumps(proxy() | {"metadata": {}}), "must hold one McpProxy"),
        (json.dumps(proxy(separator="?")), "must be 1 to 4 of the characters _ . : / and -"),
        (json.dumps(proxy(separators="?")), "separators: field not declared in schema"),
    ],
)
async def test_what_cannot_be_used_is_told_in_the_log_and_as_an_event(
    source: Source, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    source.write(text)
    for _ in range(2):
        await source.provider.look()

    (event,) = await source.cluster.list_all(EVENT, source.namespace)
    assert caplog.text.count(said) == 1
    assert said in event["message"]
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", NAME)
    assert await source.live() is None


async def test_nothing_is_written_while_nothing_changes(source: Source) -> None:
    source.write(json.dumps(proxy()))
    await source.provider.look()
    made = await source.live()
    assert made is not None
    before = len(made["metadata"]["managedFields"]), made["metadata"]["resourceVersion"]
    applied: list[object] = []
    source.cluster.apply = applied.append  # type: ignore[method-assign, assignment]

    for _ in range(3):
        await source.provider.look()

    assert applied == []
    again = await source.live()
    assert again is not None
    assert (len(again["metadata"]["managedFields"]), again["metadata"]["resourceVersion"]) == before


async def test_what_others_add_stays(source: Source, control_plane: ControlPlane) -> None:
    source.write(json.dumps(proxy()))
    await source.provider.look()
    control_plane.kubectl("-n", source.namespace, "label", "mcpp", "default", "team=agents")
    control_plane.kubectl(
        *("-n", source.namespace, "patch", "mcpp", "default", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    )
    source.write(json.dumps(proxy(separator=".")))

    await source.provider.look()

    live = await source.live()
    assert live is not None
    assert live["metadata"]["labels"]["team"] == "agents"
    assert (live["spec"]["replicas"], live["spec"]["separator"]) == (3, ".")


@pytest.mark.parametrize("value", ["source", "/source", "apps/", "a/b/c"])
def test_the_option_takes_namespace_and_name(value: str) -> None:
    done = run("operator", "--default-proxy", value)

    assert done.returncode == 2
    assert f"--default-proxy takes NAMESPACE/NAME of a ConfigMap, not '{value}'." in done.stderr
