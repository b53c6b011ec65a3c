"""A release of the chart, as its users have it: by Helm, from the work tree, with the image that the nodes have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from mcp_connections.operator.labels import workload_name
from tests.chart.helm import CHART, Helm
from tests.e2e.kubectl import Kubectl, Object

NAME = "mcp"
OPERATOR = f"{NAME}-mcp-connections"
"""Name of the operator's Deployment."""
OPERATOR_POD = "app.kubernetes.io/component=operator"
PROXY_POD = "app.kubernetes.io/name=mcp-proxy"
PROXY = workload_name("default")
SERVICE = f"service/{PROXY}"


def kubeconfig() -> Path:
    """Of the cluster that the tests were given."""
    return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


class Release:
    """One release in the namespace of ``kubectl``. The definitions belong to the tests unless it is told otherwise."""

    def __init__(self, kubectl: Kubectl, image: str, folder: Path) -> None:
        assert kubectl.namespace is not None
        self.kubectl = kubectl
        self.namespace = kubectl.namespace
        self._image = _image_values(image)
        self._helm = Helm("helm4", folder / "helm", kubeconfig())

    def install(self, *flags: str, chart: Path = CHART, check: bool = True, **values: Any) -> str:
        """helm install, and what it said."""
        return self._run("install", NAME, str(chart), *flags, values=values, check=check)

    def upgrade(self, *flags: str, chart: Path = CHART, **values: Any) -> str:
        """helm upgrade. Values are as new, like those of an installation."""
        return self._run("upgrade", NAME, str(chart), *flags, values=values)

    def rollback(self, revision: int = 0) -> None:
        """helm rollback, to the revision before if none is named."""
        self._run("rollback", NAME, *([str(revision)] if revision else []))

    def uninstall(self) -> None:
        """helm uninstall."""
        self._run("uninstall", NAME)

    def test(self) -> str:
        """helm test, and what it said."""
        return self._run("test", NAME, "--logs")

    def until_available(self) -> None:
        """Wait until the default McpProxy serves."""
        self.kubectl.wait("create", "mcpp/default")
        self.kubectl.wait("condition=Available", "mcpp/default")

    def until_rolled_out(self) -> None:
        """Wait until the operator is the one of the last upgrade."""
        self.kubectl.run("rollout", "status", f"deployment/{OPERATOR}", "--timeout=300s", seconds=360)

    def proxy_pods(self) -> list[Object]:
        """The pods of proxies that are not on their way out."""
        return self._pods(PROXY_POD)

    def proxy_uids(self) -> list[tuple[str, int]]:
        """Their ids and how often they were started again."""
        return sorted(
            (pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ())))
            for pod in self.proxy_pods()
        )

    def operator_pods(self) -> list[Object]:
        """The pods of the operator."""
        return self._pods(OPERATOR_POD)

    def _pods(self, selector: str) -> list[Object]:
        pods = self.kubectl.items("pods", f"--selector={selector}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def _run(self, *words: str, values: dict[str, Any] | None = None, check: bool = True) -> str:
        if values is not None:
            values = {"image": self._image, "crds": {"enabled": False}, **values}
        done = self._helm.run(*words, "--namespace", self.namespace, values=values, check=check)
        return done.stdout + done.stderr


def _image_values(image: str) -> dict[str, str]:
    name, _, digest = image.partition("@")
    policy = {"pullPolicy": "IfNotPresent"}
    if digest:
        return {"repository": name, "digest": digest} | policy
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag} | policy


def chart_of_version(version: str, folder: Path, *, novelty: bool = False) -> Path:
    """The chart as it would be in another version; with ``novelty``, its connections have one more field."""
    chart = folder / version / "mcp-connections"
    shutil.copytree(CHART, chart)
    _edit(chart / "Chart.yaml", {"version": version, "appVersion": version})
    if novelty:
        path = chart / "files" / "crds" / "mcp-connections.io_mcpconnections.yaml"
        crd = yaml.safe_load(path.read_text())
        (served,) = crd["spec"]["versions"]
        served["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["novelty"] = {"type": "string"}
        path.write_text(yaml.safe_dump(crd))
    return chart


def _edit(path: Path, members: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | members))
