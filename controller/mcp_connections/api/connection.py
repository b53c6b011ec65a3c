"""McpConnection: one backend that speaks MCP, as its user declares it and as the operator sees it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, StrictBool, StrictInt, StringConstraints

from mcp_connections.api.allow import AllowedClients
from mcp_connections.api.auth import BackendAuth
from mcp_connections.api.connection_status import McpConnectionStatus
from mcp_connections.api.durations import Duration, within
from mcp_connections.api.lists import LIST_TYPE
from mcp_connections.api.meta import API_VERSION, ApiVersion, ObjectMeta
from mcp_connections.api.model import ApiModel
from mcp_connections.api.policy import Policy
from mcp_connections.api.rules import Rule
from mcp_connections.api.selection import Selection, ToolSelection
from mcp_connections.api.strings import ObjectName, Prefix
from mcp_connections.api.transport import Transport

KIND = "McpConnection"
PLURAL = "mcpconnections"
SINGULAR = "mcpconnection"
SHORT_NAME = "mcpc"

SessionMode = Literal["Isolated", "Shared"]


class ProxyRef(ApiModel):
    """The McpProxy that serves this connection."""

    name: ObjectName = "default"
    """Name of an McpProxy in the same namespace."""


class SessionPolicy(ApiModel):
    """How client sessions map to sessions with the backend."""

    mode: SessionMode = "Isolated"
    """Isolated: every client session has its own session with the backend. Shared: all clients use one, and see
    each other's state in it."""
    idle_timeout: Annotated[Duration, within("1s", "168h")] | None = None
    """How long a client's session with the backend may go unused before it is ended; the next request opens another.
    One with subscriptions counts as used. Default: until the client's own session ends."""
    max_sessions: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = None
    """Sessions that clients have with the backend at once, in each replica of the proxy; the one that the proxy keeps
    for itself comes on top. Further ones are refused with an error that says so. Default: no limit."""


class CatalogPolicy(ApiModel):
    """How the list of the backend's tools, resources and prompts is kept."""

    refresh_interval: Annotated[Duration, within("1s", "168h")] = Duration("300s")
    """How often the lists are fetched again, beside every time the backend announces a change."""
    removal_grace: Annotated[Duration, within("0s", "168h")] = Duration("60s")
    """How long the last known lists are still shown after the backend was lost. 0s: not at all."""
    pin: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """Hash of the approved catalogue, as in status.catalog.hash: all that is shown of the backend's tools, resources
    and prompts, and its instructions. A catalogue of another hash is withheld from clients, who go on with the approved
    one as far as the proxy still has it. Default: any catalogue is shown."""


def _has_authorization_header(spec: McpConnectionSpec) -> bool:
    remote = spec.transport.remote
    return remote is not None and any(header.name.lower() == "authorization" for header in remote.headers)


_CEL_AUTHORIZATION = " || ".join(
    f"(has(self.transport.{kind}) && has(self.transport.{kind}.headers) && "
    f"self.transport.{kind}.headers.exists(header, header.name.lowerAscii() == 'authorization'))"
    for kind in ("http", "sse", "webSocket")
)
_CEL_AUTH = "(has(self.auth) && (has(self.auth.bearer) || has(self.auth.oauthClientCredentials)))"


def _has_auth(spec: McpConnectionSpec) -> bool:
    return spec.auth.bearer is not None or spec.auth.oauth_client_credentials is not None


def _forwards_where_it_cannot(spec: McpConnectionSpec) -> bool:
    return bool(spec.auth.forward_headers) and (spec.transport.http or spec.transport.sse) is None


class McpConnectionSpec(ApiModel):
    """What the user wants."""

    proxy_ref: ProxyRef = ProxyRef()
    """The McpProxy that serves this connection."""
    enabled: StrictBool = True
    """False takes the connection out of service and keeps the resource."""
    prefix: Prefix | None = None
    """Put before the public names of the backend's tools and prompts, followed by the proxy's separator. Empty: names
    are exposed as they are. Default: the name of this resource, made safe."""
    account: Annotated[str, StringConstraints(max_length=253)] = ""
    """The identity that the backend is used under, for example a tenant. Another account is another mount."""
    metadata: Annotated[dict[str, JsonValue], Field(max_length=64)] = Field(default_factory=dict)
    """Free-form data about the connection. A change makes a new mount."""
    transport: Transport
    """How the backend is reached."""
    auth: BackendAuth = BackendAuth()
    """How the proxy authenticates itself to the backend."""
    allow: Annotated[tuple[AllowedClients, ...], Field(max_length=16, json_schema_extra={LIST_TYPE: "atomic"})] = ()
    """Which clients see and may use the connection: those that any item admits. Takes a proxy that authenticates
    them. Default: all that may use the proxy."""
    tools: ToolSelection = ToolSelection()
    """Which tools are shown, and under which names."""
    resources: Selection = Selection()
    """Which resources and resource templates are shown, by URI."""
    prompts: Selection = Selection()
    """Which prompts are shown."""
    policy: Policy = Policy()
    """Timeouts and limits."""
    session: SessionPolicy = SessionPolicy()
    """How client sessions map to sessions with the backend."""
    catalog: CatalogPolicy = CatalogPolicy()
    """How the list of the backend's tools, resources and prompts is kept."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!({_CEL_AUTH} && has(self.transport.stdio))",
            message="must not be set for a stdio transport: pass the credential in transport.stdio.env",
            holds=lambda spec: not (_has_auth(spec) and spec.transport.stdio is not None),
            field="auth",
        ),
        Rule(
            cel=f"!({_CEL_AUTH} && ({_CEL_AUTHORIZATION}))",
            message="must not be set together with an Authorization header of the transport",
            holds=lambda spec: not (_has_auth(spec) and _has_authorization_header(spec)),
            field="auth",
        ),
        Rule(
            cel=(
                "!(has(self.auth) && has(self.auth.forwardHeaders) && self.auth.forwardHeaders.size() > 0 && "
                "(has(self.transport.webSocket) || has(self.transport.stdio)))"
            ),
            message=(
                "must not be set for a webSocket or stdio transport: its messages have no headers; use transport.http "
                "or transport.sse"
            ),
            holds=lambda spec: not _forwards_where_it_cannot(spec),
            field="auth.forwardHeaders",
        ),
    )


class McpConnection(ApiModel):
    """A backend that speaks MCP (Model Context Protocol), served under a prefix at the endpoint of an McpProxy."""

    api_version: ApiVersion = API_VERSION
    kind: Literal["McpConnection"] = "McpConnection"
    metadata: ObjectMeta
    spec: McpConnectionSpec
    """What the user wants."""
    status: McpConnectionStatus = McpConnectionStatus()
    """What the operator observed."""
