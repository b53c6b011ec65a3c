"""The definitions as a cluster takes them."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import CRDS, apply_crds
from tests.e2e.kubectl import Kubectl

BACKEND = {
    "apiVersion": "mcp-connections.io/v1alpha1",
    "kind": "McpConnection",
    "metadata": {"name": "notes"},
    "spec": {"transport": {"http": {"url": "http://notes.example/mcp"}}},
}


def test_both_kinds_are_listed_by_their_short_names(kubectl: Kubectl) -> None:
    kubectl.apply(BACKEND)

    assert "notes" in kubectl.run("get", "mcpc")
    assert "No resources found" in kubectl.run("get", "mcpp", check=False)


def test_applying_them_again_changes_nothing(kubectl: Kubectl) -> None:
    apply_crds(kubectl)
    before = kubectl.run("get", "-f", str(CRDS), "--output=jsonpath={.items[*].metadata.resourceVersion}")

    apply_crds(kubectl)

    assert kubectl.run("get", "-f", str(CRDS), "--output=jsonpath={.items[*].metadata.resourceVersion}") == before


def test_a_wrong_resource_is_refused_with_its_field(kubectl: Kubectl) -> None:
    wrong = BACKEND | {"spec": {"transport": {"http": {"url": "notes.example"}}}}

    with pytest.raises(AssertionError, match=r"spec\.transport\.http\.url"):
        kubectl.apply(wrong)
