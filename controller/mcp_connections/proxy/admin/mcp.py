"""``/admin/mcp``: the proxy administered through MCP, by the same tools an assistant uses for everything else.

A FastMCP server of its own, apart from the data path. It keeps no session: each call stands alone, so any
replica can answer it.
"""

from __future__ import annotations

from typing import Any, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from mcp_types import ToolAnnotations

from mcp_connections import __version__
from mcp_connections.mounts.plan import Plan
from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey, WireModel
from mcp_connections.proxy.admin.control import AdminControl, HealthReport, SourceError

INSTRUCTIONS = """\
Administers one mcp-connections proxy: the process that serves many MCP backends at one endpoint.
list_mounts tells what is mounted and why something is not ready; check_health asks every backend now;
plan tells what a reload would change; reload carries it out."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ASKS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)


class Health(WireModel):
    """What every backend answered to a ping."""

    healthy: int
    unhealthy: int
    connections: tuple[HealthReport, ...]


class PlannedAction(WireModel):
    """What a reload would do to one connection, and why. Holds no credential, unlike the plan it is made from."""

    action: Literal["keep", "add", "replace", "retire", "reject", "disabled"]
    connection: ConnectionKey
    reason: str


class PlannedReload(WireModel):
    """What a reload would do, connection by connection."""

    unchanged: bool
    """The reload would change nothing at all."""
    settings: tuple[str, ...]
    """What would change for the proxy as a whole."""
    actions: tuple[PlannedAction, ...]


def admin_mcp_server(control: AdminControl) -> FastMCP[None]:
    """The MCP server that administers ``control``'s process."""
    server: FastMCP[None] = FastMCP(
        "mcp-connections admin", instructions=INSTRUCTIONS, version=__version__, mask_error_details=True
    )

    @server.tool(annotations=_READS, output_schema=_schema(RegistryReport))
    async def list_mounts() -> ToolResult:
        """List every mounted connection with its state, catalogue counts, sessions and last error.

        Also the connections that were rejected or are disabled, and the mounts that were retired lately.
        """
        return _result(control.report())

    @server.tool(annotations=_ASKS, output_schema=_schema(Health))
    async def check_health() -> ToolResult:
        """Ping every backend at the same time: which of them answered, how fast, and why the others did not."""
        reports = await control.check_health()
        healthy = sum(report.healthy for report in reports)
        return _result(Health(healthy=healthy, unhealthy=len(reports) - healthy, connections=reports))

    @server.tool(annotations=_CHANGES, output_schema=_schema(ReloadResult))
    async def reload() -> ToolResult:
        """Read the manifests again and apply them. Unchanged connections keep their sessions and calls in flight."""
        try:
            return _result(await control.reload())
        except SourceError as error:
            raise ToolError(f"Nothing was changed. {error}") from error

    @server.tool(annotations=_READS, output_schema=_schema(PlannedReload))
    async def plan() -> ToolResult:
        """Tell what reload would do now (keep, add, replace, retire, reject, disabled) and why, without doing it."""
        try:
            return _result(_planned_reload(await control.plan()))
        except SourceError as error:
            raise ToolError(str(error)) from error

    return server


def _planned_reload(plan: Plan) -> PlannedReload:
    actions = tuple(
        PlannedAction.model_validate(
            {"action": type(action).__name__.lower(), "connection": action.connection, "reason": action.reason}
        )
        for action in plan.actions
    )
    return PlannedReload(unchanged=plan.is_noop, settings=plan.settings, actions=actions)


def _schema(model: type[WireModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True, mode="serialization")


def _result(model: WireModel) -> ToolResult:
    """``model`` in its wire form, the same as on /admin/v1."""
    return ToolResult(structured_content=model.model_dump(by_alias=True, mode="json"))
