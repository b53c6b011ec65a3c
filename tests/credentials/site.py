"""A folder with one connection, the proxy that serves it, and what its status would say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mcp_connections.cli.manifests import Overrides, read_desired
from mcp_connections.mounts.conditions import connection_status
from mcp_connections.mounts.report import MountReport, ReloadResult
from mcp_connections.mounts.spec import DesiredMounts
from tests.mounts.resources import START, connection
from tests.proxy.running import RunningProxy


class Site:
    """Writes manifests and has the proxy serve them."""

    def __init__(self, folder: Path, proxy: RunningProxy) -> None:
        self.folder = folder
        self.proxy = proxy
        self._spec: dict[str, Any] = {}

    async def apply(self, **spec: Any) -> ReloadResult:
        """Write the connection ``shop`` and reload."""
        self._spec = spec
        self._write("shop", "McpConnection", "mcp-connections.io/v1alpha1", {"spec": spec})
        return await self.reload()

    def secret(self, **values: str) -> None:
        """Write the Secret ``shop``."""
        self._write("secret", "Secret", "v1", {"stringData": values})

    def _write(self, file: str, kind: str, version: str, members: dict[str, Any]) -> None:
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "shop"}, **members}
        (self.folder / f"{file}.yaml").write_text(yaml.safe_dump(manifest))

    async def reload(self) -> ReloadResult:
        return await self.proxy.registry.apply(self.desired)

    @property
    def desired(self) -> DesiredMounts:
        return read_desired(self.folder, Overrides())

    @property
    def report(self) -> MountReport:
        """What the registry reports of the connection."""
        (mount,) = self.proxy.registry.report().mounts
        return mount

    @property
    def status(self) -> dict[str, Any]:
        """The status body of the connection."""
        desired = self.desired
        body = connection("shop", **self._spec)
        body = body.model_copy(
            update={"metadata": body.metadata.model_copy(update={"uid": desired.mounts[0].connection.uid})}
        )
        return connection_status(body, desired, [self.proxy.registry.report()], None, START)
