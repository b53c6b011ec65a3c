"""Pods of the product's image that ask for no right at all, and the backend that the tests mount."""

from __future__ import annotations

from typing import Any

from mcp_connections.api.meta import API_VERSION
from tests.e2e.kubectl import Kubectl, Object

PORT = 9000
LABEL = "app.kubernetes.io/name"

SERVER = f'''"""An MCP server with two tools. The product's image has what it needs."""
from fastmcp import FastMCP

server = FastMCP("backend")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def whereami() -> str:
    """Name of the pod."""
    import socket
    return socket.gethostname()


server.run(transport="http", host="0.0.0.0", port={PORT}, path="/mcp")
'''


def pod(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of one ``container``, which runs as the image says, with a root file system that it cannot write to."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: name, "app.kubernetes.io/part-of": "mcp-connections"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": name,
                    "securityContext": {
                        "readOnlyRootFilesystem": True,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
                | container
            ],
        }
        | spec,
    }


def backend(name: str, image: str) -> list[dict[str, Any]]:
    """An MCP server at ``http://NAME:PORT/mcp``: a ConfigMap with its program, a pod and a Service."""
    container = {
        "image": image,
        "command": ["python3", "/server/server.py"],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "server", "mountPath": "/server"}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    volumes = [{"name": "server", "configMap": {"name": name}}, {"name": "tmp", "emptyDir": {}}]
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"server.py": SERVER}},
        pod(name, container, volumes=volumes, restartPolicy="Always"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {LABEL: name}, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
    ]


def mcp_proxy(name: str = "default", **spec: Any) -> dict[str, Any]:
    """An McpProxy."""
    return {"apiVersion": API_VERSION, "kind": "McpProxy", "metadata": {"name": name}, "spec": spec}


def mcp_connection(name: str, url: str, **spec: Any) -> dict[str, Any]:
    """An McpConnection by URL."""
    return {
        "apiVersion": API_VERSION,
        "kind": "McpConnection",
        "metadata": {"name": name},
        "spec": {"transport": {"http": {"url": url}}, **spec},
    }


def output_of(kubectl: Kubectl, container: dict[str, Any]) -> str:
    """What a pod printed that ran to its end."""
    kubectl.apply(pod("once", container))
    ended = kubectl.until("pod", "once", _has_ended)
    output = kubectl.run("logs", "once")
    assert ended["status"]["phase"] == "Succeeded", output
    return output


def _has_ended(live: Object) -> bool:
    return live.get("status", {}).get("phase") in ("Succeeded", "Failed")
