"""The CustomResourceDefinitions, generated from the models: the only source of crds/*.yaml."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel

from mcp_connections.api import connection, proxy
from mcp_connections.api.connection import McpConnection
from mcp_connections.api.meta import GROUP, VERSION
from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.reasons import ConditionType, ProxyConditionType, Reason
from mcp_connections.api.structural import Schema, structural

_HEADER = "# Generated from the models in controller/mcp_connections/api by `mcp-connections crd`. Do not edit.\n"


def connection_crd() -> dict[str, Any]:
    """The CustomResourceDefinition of McpConnection."""
    ready = f'.status.conditions[?(@.type=="{ConditionType.READY}")]'
    schema = _schema(McpConnection, tuple(ConditionType))
    # A default here, so that connections can be selected by the proxy they belong to.
    schema["properties"]["spec"]["properties"]["proxyRef"]["default"] = {"name": "default"}
    return _crd(
        schema,
        kind=connection.KIND,
        plural=connection.PLURAL,
        singular=connection.SINGULAR,
        short_name=connection.SHORT_NAME,
        selectable=[".spec.proxyRef.name"],
        columns=[
            _column("Prefix", ".status.mount.prefix", "Stands before the names of the backend's tools."),
            _column("Transport", ".status.mount.transport", "http, sse, webSocket or stdio."),
            _column("Tools", ".status.catalog.tools", "Tools shown to clients.", kind="integer"),
            _column("Ready", f"{ready}.status", "Whether there is a live session and a catalogue."),
            _column("Reason", f"{ready}.reason", "Why it is ready or not."),
            _AGE,
            _column("URL", ".status.mount.url", "Where the backend is.", wide=True),
            _column("Protocol", ".status.server.protocolVersion", "Version of MCP agreed on.", wide=True),
            _column("Fingerprint", ".status.mount.fingerprint", "Tells one mount from another.", wide=True),
            _column("Message", f"{ready}.message", "What happened and what to do.", wide=True),
        ],
    )


def proxy_crd() -> dict[str, Any]:
    """The CustomResourceDefinition of McpProxy."""
    available = f'.status.conditions[?(@.type=="{ProxyConditionType.AVAILABLE}")]'
    programmed = f'.status.conditions[?(@.type=="{ProxyConditionType.PROGRAMMED}")]'
    return _crd(
        _schema(McpProxy, tuple(ProxyConditionType)),
        kind=proxy.KIND,
        plural=proxy.PLURAL,
        singular=proxy.SINGULAR,
        short_name=proxy.SHORT_NAME,
        selectable=[],
        columns=[
            _column("Replicas", ".status.replicas", "Ready pods.", kind="integer"),
            _column("Connections", ".status.connections.total", "Connections of this proxy.", kind="integer"),
            _column("Ready", ".status.connections.ready", "Connections that are ready.", kind="integer"),
            _column("Available", f"{available}.status", "Whether a pod serves the endpoint."),
            _column("Programmed", f"{programmed}.status", "Whether every pod has the desired mounts."),
            _AGE,
            _column("Endpoint", ".status.endpoint", "URL of the MCP endpoint within the cluster.", wide=True),
            _column("Reason", f"{available}.reason", "Why it is available or not.", wide=True),
            _column("Message", f"{available}.message", "What happened and what to do.", wide=True),
        ],
    )


def render() -> dict[str, str]:
    """YAML text by file name, named as controller-gen names them: group, underscore, plural."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": _HEADER
        + yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
        for crd in (connection_crd(), proxy_crd())
    }


class _Dumper(yaml.SafeDumper):
    """Writes shared parts out in full: a CRD is read by people and by tools that know no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _schema(model: type[BaseModel], conditions: tuple[str, ...]) -> Schema:
    schema = structural(model.model_json_schema(by_alias=True, mode="validation"))
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    # The API server knows ObjectMeta by itself and wants nothing said about it.
    properties["metadata"] = {"type": "object"}
    schema["required"] = [name for name in schema["required"] if name != "metadata"]
    # A resource that no operator looks after explains itself, as in the Gateway API.
    properties["status"]["default"] = {"conditions": [_waiting(condition) for condition in conditions]}
    return {key: value for key, value in schema.items() if value}


def _waiting(condition: str) -> dict[str, str]:
    return {
        "type": str(condition),
        "status": "Unknown",
        "reason": str(Reason.PENDING),
        "message": "Waiting for the operator",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }


def _column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


_AGE = _column("Age", ".metadata.creationTimestamp", "Time since the resource was created.", kind="date")


def _crd(
    schema: Schema,
    *,
    kind: str,
    plural: str,
    singular: str,
    short_name: str,
    selectable: list[str],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short_name],
                "categories": ["mcp"],
            },
            "versions": [version],
        },
    }
