"""The chart renders, with both versions of Helm and over all values, what Kubernetes takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_connections.api.parsing import parse_proxy
from mcp_connections.operator.labels import COMPONENT, MANAGED_BY, MANAGER, selector_labels, workload_name
from mcp_connections.operator.workload import ADMIN_PORT, PORT
from tests.chart.helm import CHART, Helm, one
from tests.chart.matrix import DIGEST, MATRIX, MONITORING
from tests.cluster.control_plane import ControlPlane
from tests.cluster.plugin import CRDS

OURS = "app.kubernetes.io/"


def rendered(name: str, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """What Helm 4 makes of one row of the matrix."""
    return Helm("helm4", folder).objects(MATRIX[name], **options)


def test_lint_finds_nothing(helm: Helm) -> None:
    for values in MATRIX.values():
        assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), values=values).stdout


@pytest.mark.parametrize("name", MATRIX)
def test_both_versions_of_helm_render_the_same(name: str, tmp_path: Path) -> None:
    four, three = (Helm(each, tmp_path / each).objects(MATRIX[name], served=MONITORING) for each in ("helm4", "helm3"))

    assert four == three
    assert {each["kind"] for each in four} >= {"Deployment"}


def test_kubernetes_takes_every_object(control_plane: ControlPlane, kubectl_validate: Path, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in MATRIX:
        for number, each in enumerate(rendered(name, tmp_path / "helm")):
            path = manifests / f"{name.replace(' ', '-')}-{number}.json"
            path.write_text(json.dumps(each))
            if each["kind"] == "ConfigMap" and "mcpproxy.yaml" in each["data"]:
                path.with_suffix(".yaml").write_text(each["data"]["mcpproxy.yaml"])
    assert len(list(manifests.iterdir())) > 200
    # The schemas are those of the API server: the program itself brings none as new as it.
    command = [str(kubectl_validate), "--version=", str(manifests)]

    done = subprocess.run(
        command, env=control_plane.environment(), capture_output=True, text=True, timeout=180, check=False
    )

    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if not line.endswith("OK"))[:4000]


def test_what_kubernetes_does_not_take_would_be_found(
    control_plane: ControlPlane, kubectl_validate: Path, tmp_path: Path
) -> None:
    bad = one(rendered("defaults", tmp_path / "helm"), "Deployment")
    bad["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["httpget"] = {}
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(bad))

    command = [str(kubectl_validate), "--version=", str(path)]
    done = subprocess.run(
        command, env=control_plane.environment(), capture_output=True, text=True, timeout=180, check=False
    )

    assert done.returncode == 1
    assert "httpget" in done.stdout + done.stderr


def test_the_definitions_are_the_generated_ones(helm: Helm) -> None:
    crds = [each for each in helm.objects() if each["kind"] == "CustomResourceDefinition"]

    assert len(crds) == len(list(CRDS.glob("*.yaml")))
    for path in CRDS.glob("*.yaml"):
        original = yaml.safe_load(path.read_text())
        crd = one(crds, "CustomResourceDefinition", original["metadata"]["name"])
        assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert crd["metadata"].pop("labels")
        assert crd == original


def test_definitions_may_be_left_out_or_made_to_go(tmp_path: Path) -> None:
    assert "CustomResourceDefinition" not in {each["kind"] for each in rendered("operator only", tmp_path)}
    for each in rendered("definitions that go", tmp_path):
        assert "annotations" not in each["metadata"] or "helm.sh/resource-policy" not in each["metadata"]["annotations"]


@pytest.mark.parametrize("name", MATRIX)
def test_pods_are_confined(name: str, tmp_path: Path) -> None:
    objects = rendered(name, tmp_path)
    pods = [each["spec"] for each in objects if each["kind"] == "Pod"]
    pods += [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]

    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_namespaced_chart_asks_for_no_right_over_the_cluster(tmp_path: Path) -> None:
    for name in ("defaults", "some namespaces"):
        assert not {each["kind"] for each in rendered(name, tmp_path)} & {"ClusterRole", "ClusterRoleBinding"}


def test_roles_are_made_where_the_operator_serves(tmp_path: Path) -> None:
    some = rendered("some namespaces", tmp_path)
    everywhere = rendered("all namespaces", tmp_path)

    own = "mcp-mcp-connections"
    roles = [each for each in some if (each["kind"], each["metadata"]["name"]) == ("Role", own)]
    assert [each["metadata"]["namespace"] for each in roles] == ["apps", "team-a", "team-b"]
    assert arguments(some)[:3] == ["--namespace=apps", "--namespace=team-a", "--namespace=team-b"]
    assert one(everywhere, "ClusterRole")["rules"] == roles[0]["rules"]
    assert not [each for each in arguments(everywhere) if each.startswith("--namespace")]
    assert one(everywhere, "ClusterRoleBinding")["subjects"][0]["namespace"] == "apps"


def test_a_digest_decides_over_a_tag(tmp_path: Path) -> None:
    objects = rendered("an image by digest", tmp_path)

    image = f"registry.example:5000/mcp/mcp-connections@{DIGEST}"
    assert container(objects)["image"] == image
    assert f"--image={image}" in arguments(objects)
    assert one(objects, "Pod")["spec"]["containers"][0]["image"] == image


def test_the_default_proxy_pulls_the_image_as_the_operator_does(tmp_path: Path) -> None:
    pod = default_proxy(rendered("a private image", tmp_path))["spec"]["podTemplate"]["spec"]

    assert pod == {
        "imagePullSecrets": [{"name": "registry"}],
        "containers": [{"name": "proxy", "imagePullPolicy": "IfNotPresent"}],
        "nodeSelector": {"disk": "ssd"},
    }


@pytest.mark.parametrize(
    "name", [name for name, values in MATRIX.items() if values.get("proxy", {}).get("create", True)]
)
def test_the_default_proxy_is_one_that_the_operator_reads(name: str, tmp_path: Path) -> None:
    parse_proxy(default_proxy(rendered(name, tmp_path)))


def test_labels_of_users_do_not_displace_those_that_select(tmp_path: Path) -> None:
    for each in rendered("labels and annotations", tmp_path):
        assert each["metadata"]["labels"]["team"] == "agents"
        assert each["metadata"]["labels"][f"{OURS}name"] == "mcp-connections"
        assert each["metadata"]["annotations"]["example.com/owner"] == "agents"


def test_what_is_made_for_the_proxy_finds_its_pods(tmp_path: Path) -> None:
    scaled = rendered("a scaled proxy", tmp_path)

    assert one(scaled, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == workload_name("agents")
    assert one(scaled, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == selector_labels("agents")


def test_network_policies_name_the_ports_and_peers_that_there_are(tmp_path: Path) -> None:
    objects = rendered("closed networks", tmp_path)
    proxy = one(objects, "NetworkPolicy", workload_name("default"))["spec"]
    operator = one(objects, "NetworkPolicy", "mcp-mcp-connections")["spec"]
    pod_labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]

    clients, admin = proxy["ingress"]
    assert [port["port"] for port in clients["ports"]] == [PORT]
    assert {"podSelector": {"matchLabels": selector_labels("default")}} in clients["from"]
    test_pod = one(objects, "Pod")["metadata"]["labels"]
    assert any(selects(peer, test_pod) for peer in clients["from"])
    assert [port["port"] for port in admin["ports"]] == [ADMIN_PORT]
    assert selects(admin["from"][0], pod_labels)
    assert selects({"podSelector": operator["podSelector"]}, pod_labels)
    to_proxies = operator["egress"][-1]
    assert [port["port"] for port in to_proxies["ports"]] == [ADMIN_PORT]
    assert selects(to_proxies["to"][0], {f"{OURS}name": COMPONENT, MANAGED_BY: MANAGER})


def test_kinds_that_a_cluster_does_not_serve_are_left_out(tmp_path: Path) -> None:
    kinds = {each["kind"] for each in rendered("metrics by pod", tmp_path, served=MONITORING)}
    without = {each["kind"] for each in rendered("metrics by pod", tmp_path)}

    assert kinds - without == {"PodMonitor", "PrometheusRule"}


def test_a_service_monitor_selects_its_service_and_that_the_pods(tmp_path: Path) -> None:
    objects = rendered("metrics by service", tmp_path, served=MONITORING)
    service = one(objects, "Service")

    monitored = one(objects, "ServiceMonitor")["spec"]
    assert selects({"podSelector": monitored["selector"]}, service["metadata"]["labels"])
    assert monitored["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["spec"]["selector"] == selector_labels("default")


def test_the_test_presents_the_token_of_clients(tmp_path: Path) -> None:
    pod = one(rendered("a proxy with a token", tmp_path), "Pod")["spec"]

    args = pod["containers"][0]["args"]
    assert args[-1] == "http://mcp-proxy-default.apps.svc:9000/mcp"
    assert "--token-file=/etc/mcp-connections/client/token" in args
    assert pod["volumes"][-1]["secret"]["secretName"] == "clients"
    assert "Pod" not in {each["kind"] for each in rendered("a proxy with web tokens", tmp_path)}


def arguments(objects: list[dict[str, Any]]) -> list[str]:
    """What the operator is started with."""
    given: list[str] = container(objects)["args"]
    return given


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The operator's container."""
    (only,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def default_proxy(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The McpProxy that the operator is to make."""
    (text,) = (each["data"]["mcpproxy.yaml"] for each in objects if "mcpproxy.yaml" in each.get("data", ()))
    manifest: dict[str, Any] = yaml.safe_load(text)
    return manifest


def selects(peer: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a peer's pod selector matches a pod with these labels."""
    wanted: dict[str, str] = peer.get("podSelector", {}).get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()
