"""A policy that changes in a folder replaces the mount of that connection and leaves every other one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_connections.cli.manifests import Overrides, read_desired
from mcp_connections.mounts.report import ReloadResult
from mcp_connections.mounts.spec import ConnectionKey
from tests.backends.scripted import ScriptedBackend
from tests.folder.manifests import connection, write
from tests.folder.manifests import proxy as proxy_manifest
from tests.proxy.conftest import MakeBackend
from tests.proxy.running import RunningProxy


async def apply(proxy: RunningProxy, folder: Path) -> ReloadResult:
    return await proxy.registry.apply(read_desired(folder, Overrides()))


def names(keys: tuple[ConnectionKey, ...]) -> list[str]:
    return [each.name for each in keys]


async def test_only_the_mount_whose_policy_changed_is_replaced(
    proxy: RunningProxy, make_backend: MakeBackend, tmp_path: Path
) -> None:
    backends: dict[str, ScriptedBackend] = {name: await make_backend() for name in ("a", "b", "c")}

    def declare(name: str, **spec: Any) -> None:
        write(tmp_path / f"{name}.yaml", connection(name, backends[name].server.port, **spec))

    for name in backends:
        declare(name)
    await apply(proxy, tmp_path)
    client = await proxy.client()
    for name in backends:
        assert (await client.call(f"{name}_bump")).text == "1"
    before = {mount.spec.connection.name: mount for mount in proxy.registry.mounts}

    for change in ({"policy": {"maxConcurrency": 1}}, {"policy": {}, "session": {"idleTimeout": "1h"}}):
        declare("b", **change)
        result = await apply(proxy, tmp_path)
        assert (names(result.kept), names(result.replaced)) == (["a", "c"], ["b"])
        assert [(each.connection.name, each.reason) for each in result.retired] == [("b", "Changed")]
        now = {mount.spec.connection.name: mount for mount in proxy.registry.mounts}
        assert (now["a"], now["c"]) == (before["a"], before["c"])
        assert now["b"] is not before["b"]
        before = now

    assert [(await client.call(f"{name}_bump")).text for name in backends] == ["2", "1", "2"]
    result = await apply(proxy, tmp_path)
    assert names(result.kept) == ["a", "b", "c"]


async def test_a_policy_is_in_force_as_soon_as_its_manifest_is(
    proxy: RunningProxy, backend: ScriptedBackend, tmp_path: Path
) -> None:
    manifest = tmp_path / "one.yaml"
    write(manifest, connection("one", backend.server.port, policy={"rateLimit": {"requests": 1, "per": "1h"}}))
    await apply(proxy, tmp_path)
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    assert (await client.call("one_bump")).error["data"]["reason"] == "RateLimited"
    write(manifest, connection("one", backend.server.port))
    await apply(proxy, tmp_path)
    assert (await client.call("one_bump")).text == "1"
    assert (await client.call("one_bump")).text == "2"


async def test_the_limit_of_clients_is_a_matter_of_the_proxys_manifest(
    proxy: RunningProxy, backend: ScriptedBackend, tmp_path: Path
) -> None:
    write(tmp_path / "one.yaml", connection("one", backend.server.port))
    write(tmp_path / "proxy.yaml", proxy_manifest(rateLimit={"requests": 2, "per": "1h"}))
    await apply(proxy, tmp_path)
    client = await proxy.client()
    answers = [await client.call("one_bump") for _ in range(3)]
    assert ["result" in answer.response for answer in answers] == [True, True, False]
    assert answers[2].error["data"]["reason"] == "RateLimited"
