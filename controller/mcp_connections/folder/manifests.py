"""Documents to resources: the kinds a folder knows, each read strictly."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.meta import GROUP
from mcp_connections.api.parsing import InvalidManifest, parse_connection, parse_proxy
from mcp_connections.api.proxy import McpProxy
from mcp_connections.folder.documents import Document
from mcp_connections.folder.errors import Fault

PROXY_NAME = "default"
"""The name of a folder's McpProxy, which is also what connections refer to unless they say otherwise."""

OWN_KINDS = ("McpConnection", "McpProxy")
_KIND = re.compile(r"""["']?kind["']?\s*:\s*["']?(\w+)""", re.IGNORECASE)

ObjectId = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass(frozen=True)
class DataObject:
    """The data of a Secret or ConfigMap, decoded."""

    data: dict[str, bytes] = field(repr=False)


Resource = McpConnection | McpProxy | DataObject


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One resource of a file, and where it starts."""

    identity: ObjectId
    resource: Resource
    line: int | None


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """What a valid file holds."""

    manifests: tuple[Manifest, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out on purpose, as sentences without the file's name."""


def read_manifests(documents: list[Document]) -> FileContent:
    """The resources of a file's documents. Raises an ExceptionGroup of Faults, all there are."""
    manifests: dict[ObjectId, Manifest] = {}
    notes: list[str] = []
    faults: list[Fault] = []
    for document in _items(documents):
        kind = document.data.get("kind") if isinstance(document.data, dict) else None
        try:
            read = _READERS.get(kind, _unknown_kind) if isinstance(kind, str) else _no_manifest
            manifest = read(document)
        except ExceptionGroup as group:
            faults.extend(each for each in group.exceptions if isinstance(each, Fault))
            continue
        except Fault as fault:
            faults.append(fault)
            continue
        if manifest is None:
            notes.append(f"line {document.place('')[0]}: a {kind} is not used by mcp-connections and was left out")
        elif manifest.identity in manifests:
            first = manifests[manifest.identity].line
            message = f"is the {describe(manifest.identity)} of line {first} again. Remove one of them."
            faults.append(document.fault("metadata.name", message))
        else:
            manifests[manifest.identity] = manifest
    if faults:
        raise ExceptionGroup("invalid manifests", faults)
    return FileContent(manifests=tuple(manifests.values()), notes=tuple(notes))


def declared_connections(documents: list[Document]) -> frozenset[tuple[str, str]] | None:
    """Namespace and name of the connections that a file is meant to declare, whatever else is wrong with it. None
    where there may be others: a document that does not say what it is, or which one."""
    declared: set[tuple[str, str]] = set()
    for document in _items(documents):
        data = document.data if isinstance(document.data, dict) else {}
        kind, meta = data.get("kind"), data.get("metadata")
        if kind == "McpConnection" and isinstance(meta, dict):
            namespace, name = meta.get("namespace") or "default", meta.get("name")
            if not isinstance(namespace, str) or not isinstance(name, str):
                return None
            declared.add((namespace, name))
        elif not isinstance(kind, str) or kind in _LISTS or kind == "McpConnection" or _is_misspelled(data):
            return None
    return frozenset(declared)


def _is_misspelled(data: dict[str, Any]) -> bool:
    group = data.get("apiVersion")
    return data["kind"] not in _READERS and isinstance(group, str) and group.partition("/")[0] == GROUP


def may_declare_proxy(content: bytes) -> bool:
    """Whether a file that cannot be read as manifests may be meant to declare an McpProxy, by its text alone. It errs
    on the side of yes: an McpProxy says who may use the endpoint, and one that is overlooked leaves it open."""
    text = content.replace(b"\0", b"").decode(errors="replace")  # UTF-16 has zeros between its letters
    return "mcpproxy" in text.lower() or any(_likely(kind) == "McpProxy" for kind in _KIND.findall(text))


def describe(identity: ObjectId) -> str:
    """``McpConnection default/github``."""
    kind, namespace, name = identity
    return f"{kind} {namespace}/{name}"


def _items(documents: list[Document]) -> Iterator[Document]:
    """Documents, those within a List (the output of ``kubectl get -o yaml``) one by one."""
    for document in documents:
        data = document.data
        if isinstance(data, dict) and data.get("kind") in _LISTS and isinstance(data.get("items"), list):
            yield from document.items("items")
        else:
            yield document


def _connection(document: Document) -> Manifest:
    connection = _parsed(document, parse_connection)
    meta = connection.metadata
    return _manifest(document, (connection.kind, meta.namespace, meta.name), connection)


def _proxy(document: Document) -> Manifest:
    proxy = _parsed(document, parse_proxy)
    meta = proxy.metadata
    if meta.name != PROXY_NAME:
        message = f"must be {PROXY_NAME}, is {meta.name!r}: a folder is served by one McpProxy of that name"
        raise document.fault("metadata.name", message)
    return _manifest(document, (proxy.kind, meta.namespace, meta.name), proxy)


def _parsed(document: Document, parse: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        return parse(document.data)
    except InvalidManifest as invalid:
        faults = [document.fault(error.field, error.message) for error in invalid.errors]
        raise ExceptionGroup("invalid manifest", faults) from None


def _secret(document: Document) -> Manifest:
    return _data_object(document, encoded="data", plain="stringData")


def _config_map(document: Document) -> Manifest:
    return _data_object(document, encoded="binaryData", plain="data")


def _data_object(document: Document, *, encoded: str, plain: str) -> Manifest:
    """Raises an ExceptionGroup of Faults, all there are."""
    kind, meta = document.data["kind"], document.data.get("metadata")
    faults: list[Fault] = []
    values: dict[str, bytes] = {}
    if document.data.get("apiVersion") != "v1":
        faults.append(document.fault("apiVersion", f"must be v1 for a {kind}"))
    if not isinstance(meta, dict):
        faults.append(document.fault("metadata", "must be an object with a name"))
        meta = {"name": "unknown"}
    name, namespace = meta.get("name"), meta.get("namespace") or "default"
    if not isinstance(name, str) or not name:
        faults.append(document.fault("metadata.name", "must be set to a string"))
    if not isinstance(namespace, str):
        faults.append(document.fault("metadata.namespace", "must be a string (put it in quotes)"))
    for member in (encoded, plain):  # in a Secret, what is in both is that of stringData
        for key, value in _entries(document, member, faults):
            decoded = _decoded(value) if member == encoded else value.encode()
            if decoded is None:
                message = "must be base64. Plain text goes into stringData of a Secret, or data of a ConfigMap."
                faults.append(document.fault(f"{member}.{key}", message))
            else:
                values[key] = decoded
    if faults:
        raise ExceptionGroup("invalid manifest", faults)
    return _manifest(document, (kind, str(namespace), str(name)), DataObject(values))


def _entries(document: Document, member: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """The strings of an object; what is none is added to ``faults``."""
    values = document.data.get(member)
    if values is not None and not isinstance(values, dict):
        faults.append(document.fault(member, "must be an object of strings"))
        return
    for key, value in (values or {}).items():
        if isinstance(value, str):
            yield key, value
        else:
            faults.append(document.fault(f"{member}.{key}", "must be a string (put it in quotes)"))


def _decoded(value: str) -> bytes | None:
    """The bytes behind base64; None where it is none."""
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _manifest(document: Document, identity: ObjectId, resource: Resource) -> Manifest:
    return Manifest(identity=identity, resource=resource, line=document.place("")[0])


def _unknown_kind(document: Document) -> None:
    """A folder may hold what the cluster needs beside connections. In our own group nothing else exists."""
    group, kind = document.data.get("apiVersion"), document.data["kind"]
    if isinstance(group, str) and group.partition("/")[0] == GROUP:
        guess = _likely(kind)
        known = f"did you mean {guess}?" if guess else f"which has {' and '.join(OWN_KINDS)}."
        raise document.fault("kind", f"{kind} is not a kind of {GROUP}, {known}")


def _no_manifest(document: Document) -> None:
    raise document.fault("kind", "must be set to McpConnection, McpProxy, Secret or ConfigMap")


def _likely(kind: str) -> str | None:
    """The kind of our own that a misspelled one is meant to be."""
    own = {each.lower(): each for each in OWN_KINDS}
    guesses = get_close_matches(kind.lower(), own, n=1)
    return own[guesses[0]] if guesses else None


_READERS: dict[str, Callable[[Document], Manifest | None]] = {
    "McpConnection": _connection,
    "McpProxy": _proxy,
    "Secret": _secret,
    "ConfigMap": _config_map,
}
_LISTS = frozenset({"List", *(f"{kind}List" for kind in _READERS)})
