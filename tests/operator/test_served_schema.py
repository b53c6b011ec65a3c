"""Definitions older than the operator: it says so, writes no status for ever, and goes on once they are brought up."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_connections.api.crd import connection_crd, proxy_crd
from mcp_connections.operator.cluster import CONNECTION, Cluster
from mcp_connections.operator.served_schema import ServedSchemas
from mcp_connections.operator.workers import RESYNC
from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.operator.operator_process import OperatorProcess
from tests.operator.unkind_apiserver import UnkindApiServer
from tests.operator.world import connection, proxy

PUBLISHED = 180.0
"""Seconds in which the API server has changed definitions in its OpenAPI documents: where it fails to read them under
load, it tries again after up to a minute."""


def older(crd: dict[str, Any], *paths: str) -> dict[str, Any]:
    """A definition that does not know some fields."""
    crd = copy.deepcopy(crd)
    for path in paths:
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        *parents, last = path.split(".")
        for name in parents:
            schema = schema["properties"][name]
        del schema["properties"][last]
    return crd


OLDER = (
    older(connection_crd(), "spec.catalog", "status.mount.policies", "status.catalog.notices"),
    older(proxy_crd(), "spec.audit"),
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of its own: its definitions change."""
    plane = ControlPlane(find_or_prepare(), tmp_path_factory.mktemp("older"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def define(plane: ControlPlane, *crds: dict[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": crds})
    plane.kubectl("apply", "--server-side", "-f", "-", input=text)
    names = [crd["metadata"]["name"] for crd in crds]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", *names)
    plane.forget_discovery()


async def until_said(operator: OperatorProcess, text: str, seconds: float = PUBLISHED) -> str:
    """The line of the log with ``text`` in it."""
    async with asyncio.timeout(seconds):
        while True:
            for line in operator.log.read_text().splitlines():
                if text in line:
                    return line
            await asyncio.sleep(0.2)


async def test_they_are_named_and_statuses_do_without_until_they_are_there(plane: ControlPlane, tmp_path: Path) -> None:
    define(plane, *OLDER)
    async with UnkindApiServer(plane, plane.kubeconfig) as api:
        through = api.kubeconfig(tmp_path / "through.kubeconfig")
        objects = [proxy(), connection("notes", "http://127.0.0.1:9/mcp")]
        async with OperatorProcess("default", through, tmp_path / "operator.log") as operator:
            line = await until_said(operator, "The CRD of McpConnection is older than this operator")
            assert "does not know spec.catalog, status.mount.policies, status.catalog.notices:" in line
            assert "mcp-connections crd | kubectl apply" in line
            assert "spec.audit" in await until_said(operator, "The CRD of McpProxy is older than this operator")
            await asyncio.to_thread(
                plane.kubectl,
                *("-n", "default", "apply", "-f", "-"),
                input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
            )
            async with await Cluster.connect(plane.kubeconfig) as cluster:
                live = await mounted(cluster)
                assert live["status"]["mount"].keys() >= {"fingerprint", "prefix"}
                assert "policies" not in live["status"]["mount"]
                await asyncio.sleep(3)
                api.asked.clear()
                await asyncio.sleep(RESYNC + 5)
                assert [each for each in api.asked if each.method not in ("GET", "HEAD")] == []

                await asyncio.to_thread(define, plane, connection_crd(), proxy_crd())
                await until_said(operator, "The CRD of McpConnection knows every field of this operator now")
                async with asyncio.timeout(PUBLISHED):
                    while "policies" not in (await mounted(cluster))["status"]["mount"]:
                        await asyncio.sleep(0.2)


async def mounted(cluster: Cluster) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while True:
            live = await cluster.get(CONNECTION, "default", "notes")
            if live is not None and "mount" in live.get("status", {}):
                return live
            await asyncio.sleep(0.1)


async def test_what_is_known_and_what_is_not(plane: ControlPlane) -> None:
    define(plane, *OLDER)
    async with await Cluster.connect(plane.kubeconfig) as cluster:
        schemas = ServedSchemas(cluster)
        assert schemas.known("McpConnection", {"anything": 1}) == {"anything": 1}, "before anything was read"
        async with asyncio.timeout(PUBLISHED):
            while not schemas.missing("McpConnection"):
                await schemas.refresh()
                await asyncio.sleep(0.2)
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "mount": {"prefix": "a", "policies": ["x"]},
            "catalog": {"tools": 1, "notices": [], "names": ["a"]},
            "retiredMounts": [{"connection": {"name": "a"}, "state": "Closed"}],
        }
        assert schemas.known("McpConnection", status) == {
            "conditions": [{"type": "Ready", "status": "True"}],
            "mount": {"prefix": "a"},
            "catalog": {"tools": 1, "names": ["a"]},
            "retiredMounts": [{"connection": {"name": "a"}, "state": "Closed"}],
        }
        define(plane, connection_crd(), proxy_crd())
        async with asyncio.timeout(PUBLISHED):
            while schemas.missing("McpConnection") or schemas.missing("McpProxy"):
                await schemas.refresh()
                await asyncio.sleep(0.2)
        assert schemas.known("McpConnection", status) == status
