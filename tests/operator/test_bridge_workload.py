"""The objects of a bridge: hardened, without a secret value, closed to others, and named so that they always fit."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_connections.api.parsing import parse_connection
from mcp_connections.operator.bridge_workload import SECRETS_ANNOTATION, Bridge, bridge_url, bridge_workload
from mcp_connections.operator.labels import bridge_name, bridge_selector_labels, connection_of, owner_of
from tests.operator.resources import mcp_proxy
from tests.operator.test_workload import OBJECT_NAMES

IMAGE = "registry.example/mcp-connections:1"
TOKEN = "the-token"


def bridge(
    name: str = "notes", *, proxy: dict[str, Any] | None = None, token: str = TOKEN, digest: str = "", **stdio: Any
) -> Bridge:
    manifest = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpConnection",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-of-{name}"},
        "spec": {"transport": {"stdio": {"command": ["server"], **stdio}}},
    }
    return Bridge(
        connection=parse_connection(manifest),
        proxy=mcp_proxy(**(proxy or {})),
        token=token,
        secret_digest=digest,
        default_image=IMAGE,
    )


def body(kind: str, subject: Bridge) -> dict[str, Any]:
    return next(each for each in bridge_workload(subject) if each["kind"] == kind)


def template(subject: Bridge) -> dict[str, Any]:
    found: dict[str, Any] = body("Deployment", subject)["spec"]["template"]
    return found


def container(subject: Bridge) -> dict[str, Any]:
    found: dict[str, Any] = template(subject)["spec"]["containers"][0]
    return found


def test_the_pod_is_hardened_and_has_no_credentials() -> None:
    pod = template(bridge())["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert body("ServiceAccount", bridge())["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "mcp-bridge-notes"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(bridge())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]


def test_there_is_one_pod_at_a_time_because_sessions_live_in_it() -> None:
    spec = body("Deployment", bridge())["spec"]

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_only_the_proxys_pods_reach_it() -> None:
    policy = body("NetworkPolicy", bridge())["spec"]

    assert policy["podSelector"]["matchLabels"] == bridge_selector_labels("notes")
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [
        {
            "podSelector": {
                "matchLabels": {"app.kubernetes.io/name": "mcp-proxy", "app.kubernetes.io/instance": "default"}
            }
        }
    ]
    assert [port["port"] for port in rule["ports"]] == [8000]


def test_values_of_secrets_are_referred_to_and_named_to_the_bridge() -> None:
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    found = container(bridge(env=[secret, {"name": "PLAIN", "value": "x"}]))

    assert found["env"] == [
        {"name": "HOME", "value": "/tmp"},  # noqa: S108
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "PLAIN", "value": "x"},
    ]
    assert "KEY" in found["args"]
    assert "PLAIN" not in found["args"]


def test_what_is_given_stays_as_it_is() -> None:
    found = container(
        bridge(
            command=["server", "--", "$(HOME)", "a b"],
            env=[{"name": "HOME", "value": "/home/$(USER)"}],
            workingDir="/srv",
            image="server:1",
            resources={"limits": {"memory": "1Gi"}},
        )
    )

    own = found["args"].index("--")
    assert found["args"][own + 1 :] == ["server", "--", "$$(HOME)", "a b"], "Kubernetes makes one dollar of two"
    assert found["args"][own - 2 : own] == ["--working-dir", "/srv"]
    assert found["env"] == [{"name": "HOME", "value": "/home/$$(USER)"}]
    assert found["image"] == "server:1"
    assert found["resources"] == {"limits": {"memory": "1Gi"}}


def test_the_image_is_the_proxys_where_none_is_given() -> None:
    assert container(bridge())["image"] == IMAGE
    assert container(bridge(proxy={"image": "other:2"}))["image"] == "other:2"


def test_placement_and_pull_secrets_are_the_proxys_and_nothing_else_of_its_pods_is() -> None:
    given = {"nodeSelector": {"disk": "fast"}, "imagePullSecrets": [{"name": "pull"}], "hostNetwork": True}
    pod = template(bridge(proxy={"podTemplate": {"spec": given}}))["spec"]

    assert pod["nodeSelector"] == {"disk": "fast"}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert "hostNetwork" not in pod


def test_the_pod_outlives_the_drain_timeout() -> None:
    subject = bridge(proxy={"drainTimeout": "90s"})

    assert template(subject)["spec"]["terminationGracePeriodSeconds"] > 90
    arguments = container(subject)["args"]
    assert arguments[arguments.index("--drain") + 1] == "90"


def test_another_value_or_token_replaces_the_pod_and_neither_can_be_guessed_from_it() -> None:
    subjects = [bridge(digest="one"), bridge(digest="two"), bridge(digest="one", token="another")]
    marks = [template(subject)["metadata"]["annotations"][SECRETS_ANNOTATION] for subject in subjects]

    assert len(set(marks)) == 3
    assert template(bridge(digest="one"))["metadata"]["annotations"][SECRETS_ANNOTATION] == marks[0]
    for subject in subjects:
        others = [each for each in bridge_workload(subject) if each["kind"] != "Secret"]
        assert subject.token not in json.dumps(others)
        assert '"one"' not in json.dumps(others)


def test_the_url_is_that_of_the_service() -> None:
    service = body("Service", bridge())

    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["selector"].items() <= template(bridge())["metadata"]["labels"].items()
    assert bridge_url(bridge().connection) == "http://mcp-bridge-notes.team.svc:8000/mcp"


@given(OBJECT_NAMES)
def test_every_name_and_label_fits_whatever_the_connection_is_called(name: str) -> None:
    for each in bridge_workload(bridge(name)):
        metadata = each["metadata"]
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", metadata["name"])
        assert len(metadata["name"]) <= 57
        assert all(len(value) <= 63 for value in metadata["labels"].values())
        assert connection_of(each) == name
        assert owner_of(each) == "default"
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("McpConnection", f"uid-of-{name}", True)


@given(st.lists(OBJECT_NAMES, min_size=2, max_size=2, unique=True))
def test_two_connections_never_share_a_name_or_a_selector(names: list[str]) -> None:
    assert bridge_name(names[0]) != bridge_name(names[1])
    assert bridge_selector_labels(names[0]) != bridge_selector_labels(names[1])
