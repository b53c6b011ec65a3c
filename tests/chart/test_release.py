"""A release on a real API server, as its users have it: install, upgrade, roll back, uninstall.

Nothing runs pods there, so the operator of the chart is started here: with the arguments that the chart gives it and
the rights of its service account.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_connections.operator.cluster import CONFIG_MAP, CONNECTION, DEPLOYMENT, PROXY, Cluster, Object
from tests.chart.helm import CHART, Helm
from tests.chart.observables import until
from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import token_kubeconfig
from tests.operator.world import connection, proxy

SPACE = "agents"
RELEASE = "mcp"
NAME = f"{RELEASE}-mcp-connections"
SOURCE = f"{NAME}-proxy-default"
CRDS = ["mcpconnections.mcp-connections.io", "mcpproxies.mcp-connections.io"]
ONE_HELM = pytest.mark.parametrize("helm_name", ["helm4"])
"""For what is the operator's doing, and the same whichever Helm it was installed with."""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """An API server of its own: definitions are for a whole cluster."""
    started = ControlPlane(find_or_prepare(), tmp_path / "plane")
    started.start()
    yield started
    started.stop()


class Release:
    """What a user does with one release, and what an administrator sees of it."""

    def __init__(
        self, plane: ControlPlane, helm_name: str, folder: Path, cluster: Cluster, *, space: str = SPACE
    ) -> None:
        self.plane = plane
        self.space = space
        self._folder = folder
        self._helm = Helm(helm_name, folder / "helm", plane.kubeconfig)
        self._cluster = cluster

    async def helm(self, *arguments: str, chart: Path | None = None, check: bool = True, **values: Any) -> str:
        """Run Helm on the release, and return all that it said."""
        command, *more = arguments
        given: tuple[str, ...] = (RELEASE, *((str(chart or CHART),) if command in ("install", "upgrade") else ()))
        ready = values if command in ("install", "upgrade") else None
        done = await asyncio.to_thread(
            self._helm.run, command, *given, "--namespace", self.space, *more, values=ready, check=check
        )
        return done.stdout + done.stderr

    def elsewhere(self, helm_name: str, space: str) -> Release:
        """Another release of the same name in another namespace."""
        return Release(self.plane, helm_name, self._folder, self._cluster, space=space)

    async def kubectl(self, *arguments: str, **options: Any) -> str:
        """Run kubectl in the namespace of the release."""
        self.plane.forget_discovery()
        return (await asyncio.to_thread(self.plane.kubectl, "-n", SPACE, *arguments, **options)).stdout

    async def crds(self) -> dict[str, Any]:
        """All definitions that there are, by name."""
        listed = json.loads(await self.kubectl("get", "crd", "-o", "json"))["items"]
        return {each["metadata"]["name"]: each for each in listed}

    async def proxy(self, name: str = "default") -> Object:
        """The McpProxy, empty where there is none."""
        return await self._cluster.get(PROXY, SPACE, name) or {}

    async def source(self) -> Object:
        """The ConfigMap that the McpProxy is made of."""
        return await self._cluster.get(CONFIG_MAP, SPACE, SOURCE) or {}

    async def exists(self, kind: Any, name: str) -> bool:
        """Whether there is such an object in the namespace."""
        return await self._cluster.get(kind, SPACE, name) is not None

    async def operator(self) -> OperatorProcess:
        """The operator as the chart starts it."""
        deployment = json.loads(await self.kubectl("get", "deployment", NAME, "-o", "json"))
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["command"] == ["mcp-connections", "operator"]
        kubeconfig = await asyncio.to_thread(token_kubeconfig, self.plane, SPACE, pod["serviceAccountName"])
        # The port of the probes may be taken on this machine.
        arguments = [each for each in container["args"] if not each.startswith("--liveness-port")]
        return OperatorProcess(None, kubeconfig, self._folder / "operator.log", *arguments)

    def log(self) -> str:
        """What the operator wrote."""
        return (self._folder / "operator.log").read_text()

    async def separator(self) -> str | None:
        """That of the McpProxy."""
        found: str | None = (await self.proxy()).get("spec", {}).get("separator")
        return found


@pytest.fixture
async def release(plane: ControlPlane, helm_name: str, tmp_path: Path) -> AsyncIterator[Release]:
    """A release that is yet to be installed."""
    async with await Cluster.connect(plane.kubeconfig) as cluster:
        yield Release(plane, helm_name, tmp_path, cluster)


def next_chart(folder: Path) -> Path:
    """The chart of a later version, whose connections have one more field."""
    chart = folder / "next" / "mcp-connections"
    shutil.copytree(CHART, chart)
    path = chart / "files" / "crds" / "mcp-connections.io_mcpconnections.yaml"
    crd = yaml.safe_load(path.read_text())
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["novelty"] = {
        "type": "string"
    }
    path.write_text(yaml.safe_dump(crd))
    return chart


def has_novelty(crds: dict[str, Any]) -> bool:
    """Whether the definition is the later one."""
    (version,) = crds[CRDS[0]]["spec"]["versions"]
    return "novelty" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


async def test_k8s_10_a_release_from_install_to_uninstall(release: Release, tmp_path: Path) -> None:
    said = await release.helm("install", "--create-namespace")
    assert "kubectl wait -n agents --for=create" in said
    assert "helm test mcp -n agents" in said
    assert sorted(await release.crds()) == CRDS

    async with await release.operator():
        await until(lambda: release.exists(DEPLOYMENT, "mcp-proxy-default"))
        (owner,) = (await release.proxy())["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ConfigMap", (await release.source())["metadata"]["uid"])
        notes = json.dumps(connection("notes", "http://127.0.0.1:9/mcp"))
        await release.kubectl("apply", "-f", "-", input=notes)
        uid = (await release.proxy())["metadata"]["uid"]

        await release.helm("upgrade", chart=next_chart(tmp_path), proxy={"spec": {"separator": "."}})
        assert has_novelty(await release.crds())
        await release.kubectl(
            "apply", "-f", "-", input=json.dumps(connection("new", "http://127.0.0.1:9/", novelty="x"))
        )
        assert await release.kubectl("get", "mcpc", "new", "-o", "jsonpath={.spec.novelty}") == "x"
        await until(lambda: is_separator(release, "."))

        await release.kubectl("patch", "mcpp", "default", "--type=merge", "-p", '{"spec":{"separator":":"}}')
        await until(lambda: is_separator(release, "."))

        await release.helm("rollback", "1")
        assert not has_novelty(await release.crds())
        await until(lambda: is_separator(release, "_"))
        assert (await release.proxy())["metadata"]["uid"] == uid

        await release.helm("uninstall")
        # Time enough to make it anew, which it must not do. The garbage collector, which is not there, takes it.
        await asyncio.sleep(2)
        assert not await release.exists(DEPLOYMENT, NAME)
        assert not await release.source()

    assert sorted(await release.crds()) == CRDS
    assert await release.exists(CONNECTION, "notes")
    assert await release.exists(CONNECTION, "new")
    assert "Traceback" not in release.log()
    assert "lacks a right" not in release.log()

    await release.helm("install", chart=tmp_path / "next" / "mcp-connections")
    assert has_novelty(await release.crds())
    async with await release.operator():
        source = (await release.source())["metadata"]["uid"]
        await until(lambda: is_owned_by(release, source))
    await release.helm("upgrade", crds={"keep": False})
    await release.helm("uninstall")
    await until(lambda: has_no_crds(release))


async def test_k8s_11_a_second_release_leaves_the_definitions_to_the_first_or_takes_them_over(
    release: Release, helm_name: str, tmp_path: Path
) -> None:
    await release.helm("install", "--create-namespace")
    await release.kubectl("apply", "-f", "-", input=json.dumps(connection("notes", "http://127.0.0.1:9/mcp")))
    second = release.elsewhere(helm_name, "mcp-system")

    refused = await second.helm("install", "--create-namespace", check=False)
    assert "CustomResourceDefinition" in refused
    assert "cannot be imported into the current release" in refused
    await second.helm("install", "--create-namespace", crds={"enabled": False})

    for each in (release, second):
        await each.helm("uninstall")
    assert await release.exists(CONNECTION, "notes")
    third = release.elsewhere(helm_name, "third")
    await third.helm("install", "--create-namespace", "--take-ownership", chart=next_chart(tmp_path))
    assert has_novelty(await release.crds())
    assert await release.exists(CONNECTION, "notes")
    await third.helm("upgrade")
    assert not has_novelty(await release.crds())


async def test_definitions_that_kubectl_applied_become_those_of_a_release(
    release: Release, helm_name: str, tmp_path: Path
) -> None:
    later = next_chart(tmp_path)
    await release.kubectl("apply", "--server-side", "-f", str(CHART / "files" / "crds"))

    await release.helm("install", "--create-namespace", "--take-ownership", *forced(helm_name), chart=later)
    assert has_novelty(await release.crds())
    await release.helm("upgrade")

    assert not has_novelty(await release.crds())


async def test_a_release_that_takes_up_definitions_late_has_them_brought_up_to_date_once(
    release: Release, helm_name: str, tmp_path: Path
) -> None:
    """As the chart's README says."""
    later = next_chart(tmp_path)
    await release.kubectl("apply", "--server-side", "-f", str(CHART / "files" / "crds"))
    await release.helm("install", "--create-namespace", crds={"enabled": False})

    await release.helm("upgrade", "--take-ownership", *forced(helm_name), chart=later, crds={"enabled": True})
    await release.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(later / "files" / "crds"))
    assert has_novelty(await release.crds())
    await release.helm("upgrade", *forced(helm_name), crds={"enabled": True})

    assert not has_novelty(await release.crds())


@ONE_HELM
async def test_a_proxy_that_the_api_server_refuses_is_told(release: Release) -> None:
    """A rule that only the API server checks. The release is what it is, and says nothing of it."""
    await release.helm("install", "--create-namespace", proxy={"spec": {"drainTimeout": "2h"}})
    async with await release.operator():
        await until(lambda: says(release, "must be from 0s to 1h"))
        events = await release.kubectl("get", "events", "-o", "json")
        assert await release.proxy() == {}
        await release.helm("upgrade", proxy={"spec": {"drainTimeout": "1h"}})
        await until(lambda: is_separator(release, "_"))

    assert "DefaultProxyFailed" in events
    assert "must be from 0s to 1h" in events


@ONE_HELM
async def test_a_proxy_of_the_users_own_is_left_alone(release: Release) -> None:
    await release.helm("install", "--create-namespace", proxy={"spec": {"separator": "."}})
    await release.kubectl("apply", "-f", "-", input=json.dumps(proxy(separator=":")))
    async with await release.operator():
        await until(lambda: says(release, "there is an McpProxy agents/default already that was not made from it"))
        assert await release.separator() == ":"

        await release.kubectl("delete", "mcpp", "default")
        await until(lambda: is_separator(release, "."))


@ONE_HELM
async def test_another_name_is_another_proxy(release: Release) -> None:
    """The one of the old name is owned by what the upgrade deleted."""
    await release.helm("install", "--create-namespace")
    async with await release.operator():
        await until(lambda: is_separator(release, "_"))
    await release.helm("upgrade", proxy={"name": "second"})
    async with await release.operator():
        await until(lambda: release.exists(PROXY, "second"))

    assert not await release.source()


def forced(helm_name: str) -> list[str]:
    """What Helm 4 wants in order to change what kubectl has applied. Helm 3 knows no such conflict."""
    return ["--force-conflicts"] if helm_name == "helm4" else []


async def has_no_crds(release: Release) -> bool:
    """Whether all definitions are gone, and with them what they define."""
    return not await release.crds()


async def is_separator(release: Release, wanted: str) -> bool:
    """Whether it is in force."""
    return await release.separator() == wanted


async def is_owned_by(release: Release, uid: str) -> bool:
    """Whether the McpProxy goes with that object, and with it alone."""
    owners = (await release.proxy()).get("metadata", {}).get("ownerReferences", [])
    return [each["uid"] for each in owners] == [uid]


async def says(release: Release, text: str) -> bool:
    """Whether the operator has written it."""
    return text in await asyncio.to_thread(release.log)
