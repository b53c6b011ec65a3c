"""The world that the end-to-end tests of the operator act in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration

from mcp_connections.operator.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.operator.backend import Backend
from tests.operator.kubelet import Kubelet
from tests.operator.operator_process import OperatorProcess
from tests.operator.rbac import operator_kubeconfig
from tests.operator.world import World


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """The operator's own client, as cluster administrator."""
    async with await Cluster.connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def kubelet(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """Runs what Deployments of the namespace ask for."""
    configuration = Configuration()
    await config.load_kube_config(config_file=str(control_plane.kubeconfig), client_configuration=configuration)
    async with ApiClient(configuration) as api, Kubelet(api, namespace, tmp_path / "pods") as running:
        yield running


@pytest.fixture
async def operator(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """A running operator with the rights of its Role."""
    kubeconfig = operator_kubeconfig(control_plane, namespace)
    async with OperatorProcess(namespace, kubeconfig, tmp_path / "operator.log") as running:
        yield running


@pytest.fixture
async def world(
    control_plane: ControlPlane, namespace: str, cluster: Cluster, kubelet: Kubelet, operator: OperatorProcess
) -> World:
    """All of it."""
    return World(control_plane, namespace, cluster, kubelet, operator)


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    """A backend that is up."""
    async with Backend() as running:
        yield running
