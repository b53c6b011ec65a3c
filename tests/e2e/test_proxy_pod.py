"""The pod that the operator would make of an McpProxy, on a node: it starts, is ready, and ends when it is told to."""

from __future__ import annotations

from mcp_connections.api.parsing import parse_proxy
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.labels import workload_name
from mcp_connections.operator.mount_secrets import admin_secret, mount_secrets, new_token
from mcp_connections.operator.workload import workload
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import mcp_proxy

NAME = workload_name("default")


def test_it_becomes_ready_and_ends_in_order(kubectl: Kubectl, image: str) -> None:
    kubectl.apply(mcp_proxy(replicas=1))
    proxy = parse_proxy(kubectl.get("mcpp", "default"))

    kubectl.apply(*mount_secrets(proxy, DesiredMounts()), admin_secret(proxy, new_token()), *workload(proxy, image))

    kubectl.until("deployment", NAME, is_available)
    name = kubectl.run("get", "pods", f"--selector=app.kubernetes.io/instance={proxy.metadata.name}", "--output=name")
    status = kubectl.get("pod", name.strip().removeprefix("pod/"))["status"]["containerStatuses"][0]
    assert status["ready"]
    assert status["restartCount"] == 0


def test_it_goes_with_its_mcp_proxy(kubectl: Kubectl, image: str) -> None:
    kubectl.apply(mcp_proxy(replicas=1))
    proxy = parse_proxy(kubectl.get("mcpp", "default"))
    kubectl.apply(*mount_secrets(proxy, DesiredMounts()), admin_secret(proxy, new_token()), *workload(proxy, image))
    kubectl.until("deployment", NAME, is_available)

    kubectl.run("delete", "mcpp", "default")

    kubectl.wait("delete", f"deployment/{NAME}", f"service/{NAME}", f"secret/{NAME}-admin")
    kubectl.wait("delete", "pod", "--selector=app.kubernetes.io/name=mcp-proxy")


def is_available(live: Object) -> bool:
    return bool(live.get("status", {}).get("availableReplicas"))
