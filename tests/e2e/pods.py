"""Pods of the product's image that ask for no right at all, and the backend that the tests mount."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_connections.api.meta import API_VERSION
from tests.e2e.kubectl import Kubectl, Object

PORT = 9000
LABEL = "app.kubernetes.io/name"

INSIDE = Path(__file__).parent / "inside"
TOOLS = ("add", "grow", "header", "hold", "holding", "let_go", "whereami")
"""Of the backend."""


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
        "env": [{"name": "PORT", "value": str(PORT)}],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "server", "mountPath": "/server"}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    server = (INSIDE / "backend.py").read_text()
    volumes = [{"name": "server", "configMap": {"name": name}}, {"name": "tmp", "emptyDir": {}}]
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"server.py": server}},
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


def mcp_connection(name: str, url: str, *, headers: Sequence[Mapping[str, Any]] = (), **spec: Any) -> dict[str, Any]:
    """An McpConnection by URL."""
    http = {"url": url, "headers": list(headers)} if headers else {"url": url}
    return {
        "apiVersion": API_VERSION,
        "kind": "McpConnection",
        "metadata": {"name": name},
        "spec": {"transport": {"http": http}, **spec},
    }


def stdio_connection(name: str, program: str, **spec: Any) -> dict[str, Any]:
    """An McpConnection that runs a program of ``inside``, with members of its transport and of its spec in ``spec``."""
    stdio = {"command": ["python3", "-c", (INSIDE / program).read_text()], **spec.pop("stdio", {})}
    return {
        "apiVersion": API_VERSION,
        "kind": "McpConnection",
        "metadata": {"name": name},
        "spec": {"transport": {"stdio": stdio}, **spec},
    }


def from_secret(name: str, secret: str, key: str) -> dict[str, Any]:
    """A header, or an environment variable, whose value is in a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def output_of(kubectl: Kubectl, container: dict[str, Any]) -> str:
    """What a pod printed that ran to its end."""
    kubectl.apply(pod("once", container))
    ended = kubectl.until("pod", "once", _has_ended)
    output = kubectl.run("logs", "once")
    assert ended["status"]["phase"] == "Succeeded", output
    return output


async def run_inside(kubectl: Kubectl, pod: str, program: str, *words: str) -> str:
    """What a program of ``inside`` prints in a pod."""
    command = ["exec", f"pod/{pod}", "--", "python3", "-c", (INSIDE / program).read_text(), *words]
    return await asyncio.to_thread(kubectl.run, *command)


def _has_ended(live: Object) -> bool:
    return live.get("status", {}).get("phase") in ("Succeeded", "Failed")
