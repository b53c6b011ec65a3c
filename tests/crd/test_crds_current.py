"""The committed CRDs are those the models make, and bound everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_connections.api.crd import connection_crd, proxy_crd, render

FOLDER = Path(__file__).parents[2] / "crds"
FREE_FORM = {".spec.podTemplate.spec", ".spec.metadata"}


def test_committed_crds_are_current() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}

    assert committed == render(), "run: make crds"


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, member in schema.get("properties", {}).items():
        yield f"{path}.{name}", member
        yield from fields(member, f"{path}.{name}")
    for keyword, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in schema:
            yield f"{path}{suffix}", schema[keyword]
            yield from fields(schema[keyword], f"{path}{suffix}")


def declared(crd: dict[str, Any]) -> dict[str, dict[str, Any]]:
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {path: schema for path, schema in fields(root) if path.startswith((".spec", ".status"))}


CRDS = pytest.mark.parametrize("crd", [connection_crd(), proxy_crd()], ids=["connection", "proxy"])


@CRDS
def test_every_field_is_described(crd: dict[str, Any]) -> None:
    members = {path: schema for path, schema in declared(crd).items() if not path.endswith(("[]", "{}"))}

    assert [path for path, schema in members.items() if not schema.get("description", "").endswith((".", "…"))] == []


@CRDS
def test_everything_is_bounded(crd: dict[str, Any]) -> None:
    unbounded = [path for path, schema in declared(crd).items() if not _bounded(schema)]

    assert unbounded == []


@CRDS
def test_every_list_says_how_it_merges(crd: dict[str, Any]) -> None:
    lists = {path: schema for path, schema in declared(crd).items() if schema.get("type") == "array"}

    assert lists
    assert [path for path, schema in lists.items() if "x-kubernetes-list-type" not in schema] == []


@CRDS
def test_only_what_is_free_form_keeps_unknown_fields(crd: dict[str, Any]) -> None:
    kept = {path for path, schema in declared(crd).items() if "x-kubernetes-preserve-unknown-fields" in schema}

    assert kept
    assert kept <= FREE_FORM


@CRDS
def test_every_rule_says_what_must_be(crd: dict[str, Any]) -> None:
    rules = [rule for schema in declared(crd).values() for rule in schema.get("x-kubernetes-validations", ())]

    assert rules
    assert [rule["message"] for rule in rules if not rule["message"].startswith("must ")] == []


def _bounded(schema: dict[str, Any]) -> bool:
    match schema.get("type"):
        case "string":
            return "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
        case "array":
            return "maxItems" in schema
        case "object":
            return "maxProperties" in schema or not _is_map(schema)
        case "integer":
            return "minimum" in schema
        case "boolean":
            return True
        case None:
            return "maxLength" in schema and bool(schema.get("x-kubernetes-int-or-string"))
        case _:
            return False


def _is_map(schema: dict[str, Any]) -> bool:
    return "additionalProperties" in schema or "x-kubernetes-preserve-unknown-fields" in schema
