"""A folder of manifests as desired mounts, with what the command line says on top."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from mcp_connections.api.meta import ObjectMeta
from mcp_connections.api.proxy import McpProxy
from mcp_connections.api.strings import Separator
from mcp_connections.cli.failure import InputError
from mcp_connections.folder.manifests import PROXY_NAME
from mcp_connections.folder.reader import Folder, FolderState
from mcp_connections.mounts.acceptance import proxy_rejection
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.proxy.admin.control import SourceError


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings of the McpProxy that the command line decides."""

    separator: str | None = None
    strict: bool = False


def checked_folder(path: Path) -> Path:
    """``path``, where it is a folder. Raises InputError."""
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}. Give the folder that holds the manifests.")
    return path


def checked_separator(separator: str | None) -> str | None:
    """``separator``, where it is a valid one. Raises InputError."""
    if separator is not None:
        try:
            TypeAdapter(Separator).validate_python(separator)
        except ValidationError as error:
            raise InputError("--separator must be 1 to 4 of the characters _ . : / and -.") from error
    return separator


def desired(state: FolderState, overrides: Overrides) -> DesiredMounts:
    """What should be served. Raises SourceError where the folder's McpProxy cannot be put into effect.

    Takes a while for a large folder.
    """
    if state.proxy is not None and (rejection := proxy_rejection(state.proxy, state.secret_data)):
        name = f"{state.proxy.metadata.namespace}/{state.proxy.metadata.name}"
        raise SourceError(f"McpProxy {name}: {rejection.reason}: {rejection.message}")
    proxy = _overridden(state.proxy, overrides)
    return desired_mounts(proxy, state.connections, state.secret_data, "Folder")


def read_desired(path: Path, overrides: Overrides) -> DesiredMounts:
    """What the folder asks for now. Blocks on the file system. Raises SourceError where any file is invalid."""
    state = Folder(path).read()
    if state.errors:
        more = f" (and {len(state.errors) - 1} more)" if len(state.errors) > 1 else ""
        raise SourceError(f"{state.errors[0]}{more}")
    return desired(state, overrides)


def _overridden(proxy: McpProxy | None, overrides: Overrides) -> McpProxy | None:
    changes: dict[str, object] = {}
    if overrides.separator is not None:
        changes["separator"] = overrides.separator
    if overrides.strict:
        changes["start_policy"] = "Strict"
    if not changes:
        return proxy
    proxy = proxy or McpProxy(metadata=ObjectMeta(name=PROXY_NAME))
    return proxy.model_copy(update={"spec": proxy.spec.model_copy(update=changes)})
