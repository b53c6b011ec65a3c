"""McpProxy: one endpoint and the pods behind it, as its user declares them and as the operator sees them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, StrictBool, StrictInt, StringConstraints

from mcp_connections.api.bounds import Clip
from mcp_connections.api.connection_status import CatalogCounts, Count, RetiredMounts
from mcp_connections.api.durations import Duration, within
from mcp_connections.api.lists import ListSet
from mcp_connections.api.meta import API_VERSION, ApiVersion, Conditions, ObjectMeta
from mcp_connections.api.model import ApiModel
from mcp_connections.api.policy import RateLimit
from mcp_connections.api.resources import ResourceRequirements
from mcp_connections.api.rules import Rule, matching, one_of
from mcp_connections.api.secret_refs import SecretKeyRef
from mcp_connections.api.strings import HttpUrl, Separator

KIND = "McpProxy"
PLURAL = "mcpproxies"
SINGULAR = "mcpproxy"
SHORT_NAME = "mcpp"

StartPolicy = Literal["Lenient", "Strict"]
ServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer"]

_Label = Annotated[str, StringConstraints(max_length=63)]
_Labels = Annotated[dict[str, _Label], Field(max_length=64)]
_Annotations = Annotated[dict[str, Annotated[str, StringConstraints(max_length=65536)]], Field(max_length=64)]


class NoAuth(ApiModel):
    """Clients are not authenticated."""


class JwtAuth(ApiModel):
    """Clients present a JSON Web Token (RFC 9068)."""

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    """Required value of the iss claim."""
    audience: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    """Required value among those of the aud claim."""
    jwks_uri: HttpUrl
    """Where the issuer publishes its keys (RFC 7517)."""
    required_scopes: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...], Field(max_length=64), ListSet()
    ] = ()
    """Scopes that every token must carry."""


class ClientAuth(ApiModel):
    """How clients authenticate to the endpoint. Exactly one method is set: an empty object is refused, as it leaves the
    endpoint open although somebody began to say who may use it."""

    none: NoAuth | None = None
    """Clients are not authenticated. So it is without ``auth``, too; ``{}`` here says that it is meant so."""
    bearer_token_ref: SecretKeyRef | None = None
    """The key of a Secret that holds the one token every client presents."""
    jwt: JwtAuth | None = None
    """Clients present a JSON Web Token."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("none", "bearerTokenRef", "jwt"),)


class ServiceSpec(ApiModel):
    """The Service in front of the pods."""

    type: ServiceType = "ClusterIP"
    """Type of the Service."""
    port: Annotated[StrictInt, Field(ge=1, le=65535)] = 8000
    """Port of the Service."""
    annotations: _Annotations = Field(default_factory=dict)
    """Annotations of the Service, for example for a cloud's load balancer."""


class PodMetadata(ApiModel):
    """Labels and annotations of the pods."""

    labels: _Labels = Field(default_factory=dict)
    """Labels added to the generated ones."""
    annotations: _Annotations = Field(default_factory=dict)
    """Annotations added to the generated ones."""


class PodTemplate(ApiModel):
    """Changes to the generated pod template."""

    metadata: PodMetadata = PodMetadata()
    """Labels and annotations of the pods."""
    spec: Annotated[dict[str, JsonValue], Field(max_length=64)] = Field(default_factory=dict)
    """Members of core/v1 PodSpec, merged over the generated ones: objects member by member, lists of named items by
    name, everything else replaced."""


class Limits(ApiModel):
    """Bounds that keep one client or backend from taking the memory of all. Sizes in MiB (1,048,576 bytes)."""

    request_body_mib: Annotated[StrictInt, Field(ge=1, le=1024)] = 16
    """Largest body of a client's request. A larger one is answered with HTTP 413."""
    backend_message_mib: Annotated[StrictInt, Field(ge=1, le=1024)] = 64
    """Largest message of a backend. Counts for a connection from the time it is mounted next."""
    list_pages: Annotated[StrictInt, Field(ge=1, le=10_000)] = 50
    """Pages of one list that are read of a backend. Counts for a connection from the time it is mounted next."""
    list_items: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 20_000
    """Items of one list that are taken from a backend. Counts for a connection from the time it is mounted next."""
    sessions: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 10_000
    """Client sessions of each pod at once. A further one is answered with HTTP 503 and Retry-After."""


class AuditPolicy(ApiModel):
    """What is written down of the use of the endpoint."""

    calls: StrictBool = False
    """Log a line for each relayed request: client, connection, method, tool, outcome, duration. No arguments, no
    results."""


class StdioPolicy(ApiModel):
    """Whether connections may run commands."""

    allowed: StrictBool = False
    """Lets connections of this proxy use the stdio transport, that is run a command of their author's choice in a pod
    of this namespace."""


class McpProxySpec(ApiModel):
    """What the user wants."""

    replicas: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """Number of pods. Default: 1 at first, then whatever the Deployment has, so that an autoscaler can own it."""
    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """Image of the pods. Default: the one the operator was installed with."""
    separator: Separator = "_"
    """Stands between prefix and name in public names. Of its characters only ``_``, ``-`` and ``.`` are in the alphabet
    that MCP recommends for tool names."""
    start_policy: StartPolicy = "Lenient"
    """Lenient: ready once every connection's first attempt has ended, well or badly. Strict: not ready unless every
    connection is."""
    auth: ClientAuth | None = None
    """How clients authenticate to the endpoint. Default: they are not authenticated."""
    allowed_hosts: Annotated[
        tuple[
            Annotated[
                str,
                StringConstraints(max_length=261),
                matching(
                    r"^(\*\.)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:([0-9]{1,5}|\*))?$",
                    "must be a host name, optionally with a leading *. and a port",
                ),
            ],
            ...,
        ],
        Field(max_length=64),
        ListSet(),
    ] = ()
    """Values of the Host header that are served, against DNS rebinding. Default: any."""
    rate_limit: RateLimit | None = None
    """Requests per client and time, in each replica. A client is the subject of a JSON Web Token, without one a
    session. Default: no limit."""
    limits: Limits = Limits()
    """Sizes and numbers that are not exceeded."""
    audit: AuditPolicy = AuditPolicy()
    """What is written down of the use of the endpoint."""
    drain_timeout: Annotated[Duration, within("0s", "1h")] = Duration("30s")
    """How long a retired mount, or a pod that is shut down, may go on with the calls in flight."""
    service: ServiceSpec = ServiceSpec()
    """The Service in front of the pods."""
    resources: ResourceRequirements = ResourceRequirements()
    """Compute resources of the proxy's container."""
    pod_template: PodTemplate = PodTemplate()
    """Changes to the generated pod template."""
    stdio: StdioPolicy = StdioPolicy()
    """Whether connections may run commands."""


class ConnectionCounts(ApiModel):
    """How many connections the proxy has."""

    total: Count = 0
    """Connections that refer to this proxy."""
    mounted: Count = 0
    """Connections whose condition Mounted is True."""
    ready: Count = 0
    """Connections whose condition Ready is True."""


class McpProxyStatus(ApiModel):
    """What the operator observed."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """metadata.generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Available: at least one pod serves. Accepted: the spec is valid and its references resolve. Programmed: every
    ready pod has the desired mounts."""
    endpoint: Annotated[str, Clip(2048)] | None = None
    """URL of the MCP endpoint within the cluster."""
    replicas: Count | None = None
    """Ready pods."""
    connections: ConnectionCounts | None = None
    """How many connections the proxy has."""
    retired_mounts: RetiredMounts = ()
    """The last 20 mounts of deleted connections, newest last."""
    catalog: CatalogCounts | None = None
    """How many items are shown to clients."""


class McpProxy(ApiModel):
    """One MCP endpoint that serves every McpConnection that refers to it, and the pods behind it."""

    api_version: ApiVersion = API_VERSION
    kind: Literal["McpProxy"] = "McpProxy"
    metadata: ObjectMeta
    spec: McpProxySpec = McpProxySpec()
    """What the user wants."""
    status: McpProxyStatus = McpProxyStatus()
    """What the operator observed."""
