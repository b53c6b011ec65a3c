"""The objects of a workload: hardened, stable against what is mounted, and named so that they always fit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_connections.operator.labels import object_labels, owner_of, selector_labels, workload_name
from mcp_connections.operator.mount_secrets import MAX_PARTS
from mcp_connections.operator.workload import LINGER_SECONDS, endpoint, workload
from mcp_connections.proxy.process import END_SECONDS
from tests.operator.resources import mcp_proxy

IMAGE = "registry.example/mcp-connections:1"
OBJECT_NAMES = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}", fullmatch=True
)


def deployment(**spec: Any) -> dict[str, Any]:
    return next(body for body in workload(mcp_proxy(**spec), IMAGE) if body["kind"] == "Deployment")


def pod_spec(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = deployment(**spec)["spec"]["template"]["spec"]
    return found


def test_the_pod_is_hardened() -> None:
    pod = pod_spec()
    container = pod["containers"][0]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]


def test_probes_ask_the_admin_port() -> None:
    container = pod_spec()["containers"][0]

    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "admin"}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": 8000, "admin": 8001}


def test_the_command_reads_what_is_mounted() -> None:
    container = pod_spec()["containers"][0]
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}

    def given(option: str) -> str:
        arguments: list[str] = container["args"]
        return arguments[arguments.index(option) + 1]

    assert container["command"] == ["mcp-connections", "proxy"]
    assert given("--mounts") in paths
    assert given("--admin-token-file").rpartition("/")[0] in paths


def test_all_parts_of_the_mounts_are_looked_for_and_only_the_first_is_needed() -> None:
    sources = next(volume for volume in pod_spec()["volumes"] if volume["name"] == "mounts")["projected"]["sources"]

    assert len(sources) == MAX_PARTS
    assert [source["secret"].get("optional", False) for source in sources] == [False] + [True] * (MAX_PARTS - 1)


@pytest.mark.parametrize("seconds", [0, 90])
def test_a_pod_is_given_the_drain_timeout_and_the_time_around_it(seconds: int) -> None:
    pod = pod_spec(drainTimeout=f"{seconds}s")

    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": LINGER_SECONDS}}}
    assert pod["terminationGracePeriodSeconds"] > LINGER_SECONDS + seconds + END_SECONDS


def test_replicas_are_left_to_others_unless_given() -> None:
    assert "replicas" not in deployment()["spec"]
    assert deployment(replicas=0)["spec"]["replicas"] == 0
    assert deployment(replicas=3)["spec"]["replicas"] == 3


def test_the_image_is_the_proxys_own_or_the_operators() -> None:
    assert pod_spec()["containers"][0]["image"] == IMAGE
    assert pod_spec(image="other:2")["containers"][0]["image"] == "other:2"


def test_resources_are_passed_on() -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}

    assert pod_spec(resources=resources)["containers"][0]["resources"] == resources
    assert "resources" not in pod_spec()["containers"][0]


def test_a_pod_template_cannot_take_the_pods_out_of_the_selector() -> None:
    template = {"metadata": {"labels": {"app.kubernetes.io/name": "mine", "team": "ours"}}}
    body = deployment(podTemplate=template)

    assert body["spec"]["selector"]["matchLabels"].items() <= body["spec"]["template"]["metadata"]["labels"].items()
    assert body["spec"]["template"]["metadata"]["labels"]["team"] == "ours"


def test_the_service_selects_the_pods_and_names_the_endpoint() -> None:
    proxy = mcp_proxy(service={"type": "LoadBalancer", "port": 80, "annotations": {"cloud": "ours"}})
    service = next(body for body in workload(proxy, IMAGE) if body["kind"] == "Service")

    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["selector"] == selector_labels("default")
    assert service["metadata"]["annotations"]["cloud"] == "ours"
    assert endpoint(proxy) == "http://mcp-proxy-default.team.svc:80/mcp"


@given(OBJECT_NAMES)
def test_every_name_and_label_fits_whatever_the_proxy_is_called(name: str) -> None:
    proxy = mcp_proxy(name)

    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", workload_name(name))
    assert len(workload_name(name)) <= 50
    for value in object_labels(proxy).values():
        assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", value)
        assert len(value) <= 63
    assert all(owner_of(body) == name for body in workload(proxy, IMAGE))


@given(st.lists(OBJECT_NAMES, min_size=2, max_size=2, unique=True))
def test_two_proxies_never_share_a_name_or_a_selector(names: list[str]) -> None:
    assert workload_name(names[0]) != workload_name(names[1])
    assert selector_labels(names[0]) != selector_labels(names[1])


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, {"mcp-connections.io/proxy": "default"}),
        ({"app.kubernetes.io/managed-by": "helm"}, {"mcp-connections.io/proxy": "default"}),
        ({"app.kubernetes.io/managed-by": "mcp-connections-operator"}, {}),
    ],
)
def test_an_object_without_both_marks_is_not_ours(labels: dict[str, str], annotations: dict[str, str]) -> None:
    assert owner_of({"metadata": {"labels": labels, "annotations": annotations}}) is None
