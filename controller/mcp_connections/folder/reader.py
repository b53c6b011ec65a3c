"""A directory of manifests as the resources of one proxy.

Every file is read as a whole: a file with a fault changes nothing, and what it last held while it was valid stays in
force until the fault is mended or the file is gone. So a typing error while editing never takes a connection down.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.proxy import McpProxy
from mcp_connections.folder.documents import read_documents
from mcp_connections.folder.errors import Fault, FileError
from mcp_connections.folder.manifests import (
    DataObject,
    FileContent,
    Manifest,
    ObjectId,
    declared_connections,
    describe,
    may_declare_proxy,
    read_manifests,
)
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.spec import DesiredMounts

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
MAX_FILE_BYTES = 16 * 1024 * 1024

Signature = tuple[tuple[str, int, int, int], ...]
"""Name, inode, time of change in nanoseconds and size of every file."""


@dataclass(frozen=True, kw_only=True)
class InvalidFile:
    """A file that cannot be used as it is: what it last held while it was valid stays in force."""

    file: str
    connections: frozenset[tuple[str, str]] | None
    """Namespace and name of those that it declares now. None where that cannot be told."""


@dataclass(frozen=True, kw_only=True)
class FolderState:
    """What a folder holds at one moment."""

    connections: tuple[McpConnection, ...] = ()
    proxy: McpProxy | None = None
    secret_data: dict[tuple[str, str, str], dict[str, bytes]] = field(default_factory=dict, repr=False)
    """Data of the folder's Secrets and ConfigMaps by (kind, namespace, name)."""
    errors: tuple[FileError, ...] = ()
    """Faults of the files as they are now; the resources above are then those of the last good state."""
    proxy_errors: tuple[FileError, ...] = ()
    """Those of the errors that may hide an McpProxy, and with it who may use the endpoint."""
    invalid: tuple[InvalidFile, ...] = ()
    """The files with faults, and the directory if it cannot be listed."""
    notes: tuple[str, ...] = ()
    """What was left out on purpose."""

    @cached_property
    def desired(self) -> DesiredMounts:
        """What should be served. Computed at first use, which in a large folder takes a while."""
        return desired_mounts(self.proxy, self.connections, self.secret_data, "Folder")


@dataclass
class _File:
    """What is remembered of one file."""

    digest: bytes | None = None
    good: FileContent = field(default_factory=FileContent)
    errors: tuple[FileError, ...] = ()
    may_hide_proxy: bool = False
    """It is invalid, and an McpProxy is in it or cannot be ruled out."""
    declared: frozenset[tuple[str, str]] | None = None
    """The connections that it names as it is now, where it is invalid and they are known."""


class Folder:
    """A directory of ``*.yaml``, ``*.yml`` and ``*.json`` files. Subdirectories and hidden files are left alone.

    ``read`` blocks on the file system. Calls must not overlap.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[Path, _File] = {}
        self._proxy: McpProxy | None = None
        """The last good one. It goes with its file, but not while another file may hide it."""

    def signature(self) -> Signature:
        """A cheap fingerprint of the directory: it changes whenever a file may have. Follows symbolic links."""
        found = []
        for path in self._paths():
            try:
                facts = path.stat()
            except OSError:
                continue
            found.append((path.name, facts.st_ino, facts.st_mtime_ns, facts.st_size))
        return tuple(found)

    def read(self) -> FolderState:
        """The present state. Never raises for what the directory holds: faults are part of the state. A directory that
        cannot be listed is a fault too, and leaves the last state in force."""
        try:
            paths = list(self._list())
        except OSError as error:
            fault = FileError(file=str(self.path), message=f"cannot be read: {error.strerror}. Check the path.")
            return self._merge((fault,), hidden=(fault,))
        self._files = {path: self._files.get(path, _File()) for path in paths}
        for path in paths:
            if not self._refresh(path, self._files[path]):
                del self._files[path]
        return self._merge(())

    def _paths(self) -> list[Path]:
        try:
            return self._list()
        except OSError:
            return []

    def _list(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))

    def _refresh(self, path: Path, file: _File) -> bool:
        """Bring what is remembered of a file up to date. False: the file is gone."""
        try:
            content = _content(path)
        except Fault as fault:
            file.digest, file.errors, file.may_hide_proxy = None, (fault.within(str(path)),), True
            file.declared = None
            return True
        if content is None:
            return False
        digest = hashlib.sha256(content).digest()
        if digest == file.digest:
            return True
        file.digest, file.declared = digest, None
        try:
            documents = read_documents(content, is_json=path.suffix == ".json")
            file.declared = declared_connections(documents)
            file.good = read_manifests(documents)
            file.errors = ()
        except Fault as fault:
            file.errors = (fault.within(str(path)),)
        except ExceptionGroup as group:
            file.errors = tuple(fault.within(str(path)) for fault in group.exceptions if isinstance(fault, Fault))
        file.may_hide_proxy = bool(file.errors) and may_declare_proxy(content)
        return True

    def _merge(self, errors: tuple[FileError, ...], *, hidden: tuple[FileError, ...] = ()) -> FolderState:
        """The resources of all files; of two with one identity, that of the first file by name."""
        owners: dict[ObjectId, tuple[Path, Manifest]] = {}
        found = list(errors)
        notes: list[str] = []
        for path, file in self._files.items():
            found += file.errors
            notes += [f"{path}: {note}" for note in file.good.notes]
            for manifest in file.good.manifests:
                identity = _rival(manifest.identity)
                if identity in owners:
                    found.append(_duplicate(path, manifest, owners[identity]))
                else:
                    owners[identity] = (path, manifest)
        resources = {manifest.identity: manifest.resource for _, manifest in owners.values()}
        proxy_errors = (
            *hidden,
            *(each for file in self._files.values() if file.may_hide_proxy for each in file.errors),
        )
        proxy = next((each for each in resources.values() if isinstance(each, McpProxy)), None)
        if proxy is not None or not proxy_errors:
            self._proxy = proxy
        return FolderState(
            connections=tuple(each for each in resources.values() if isinstance(each, McpConnection)),
            proxy=self._proxy,
            secret_data={key: each.data for key, each in resources.items() if isinstance(each, DataObject)},
            errors=tuple(found),
            proxy_errors=proxy_errors,
            invalid=(
                *(InvalidFile(file=fault.file, connections=None) for fault in hidden),
                *(
                    InvalidFile(file=str(path), connections=file.declared)
                    for path, file in self._files.items()
                    if file.errors
                ),
            ),
            notes=tuple(notes),
        )


def _content(path: Path) -> bytes | None:
    """None: there is no such file, or it is none. Raises Fault."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Fault(f"cannot be read: {error.strerror}. Check its permissions.") from None
    if len(content) > MAX_FILE_BYTES:
        raise Fault(f"is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB. Split it into several files.")
    return content


def _rival(identity: ObjectId) -> ObjectId:
    """What two manifests must not share. A folder has one McpProxy, whatever its namespace."""
    kind, namespace, name = identity
    return (kind, "", "") if kind == "McpProxy" else (kind, namespace, name)


def _duplicate(path: Path, manifest: Manifest, owner: tuple[Path, Manifest]) -> FileError:
    first, other = owner
    what = describe(manifest.identity)
    place = f"{first}:{other.line}" if other.line else str(first)
    message = f"{what} is already declared as {describe(other.identity)} in {place}, which is used. Remove one of them."
    if manifest.identity == other.identity:
        message = f"{what} is already declared in {place}, which is used. Remove one of them."
    return FileError(file=str(path), line=manifest.line, field="metadata.name", message=message)
