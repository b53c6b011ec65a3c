"""What is to be mounted: the wire form of desired state.

The planner produces these models from resources; the operator renders them into the proxy's Secret and
pushes them to its admin port; the registry applies them. They hold resolved values (Secret data included),
so they are never logged: every field that may carry a credential is kept out of ``repr``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Base of every model exchanged between an operator and a proxy.

    Unknown members are ignored on purpose: an operator and a proxy one version apart work together.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class ConnectionKey(WireModel):
    """Identity of a connection. The uid keeps a re-created resource of the same name apart."""

    namespace: str = "default"
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __hash__(self) -> int:
        return hash((self.namespace, self.name, self.uid))


class ClientCredentials(WireModel):
    """How a token for a backend is fetched (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: Annotated[str, Field(repr=False)]
    client_authentication: Literal["Basic", "Post"] = "Basic"
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    """Resource indicator (RFC 8707); None: the token endpoint is told of none."""


class HttpServer(WireModel):
    """A backend reached by URL: streamable HTTP, legacy SSE or WebSocket."""

    kind: Literal["http", "sse", "webSocket"] = "http"
    url: str
    headers: Annotated[dict[str, str], Field(repr=False)] = {}
    """Headers sent with every request, credentials included."""
    ca_bundle: Annotated[str | None, Field(repr=False)] = None
    """PEM text of the authorities to trust instead of the system's, for the token endpoint too."""
    forward_headers: tuple[str, ...] = ()
    """Headers of a client's request that go with it, lower case; ``headers`` win."""
    client_credentials: ClientCredentials | None = None
    """Where the credential is fetched, if it is none of ``headers``."""
    bridged: bool = False
    """Behind the URL is a bridge that runs a command: what befalls the command is told as if it ran here."""

    @property
    def transport(self) -> str:
        """The transport that the connection declares."""
        return "stdio" if self.bridged else self.kind


class StdioServer(WireModel):
    """A backend run as a child process that speaks MCP over stdin and stdout."""

    kind: Literal["stdio"] = "stdio"
    command: tuple[str, ...]
    env: Annotated[dict[str, str], Field(repr=False)] = {}
    """Variables of the child, on top of a small allow-list inherited from the proxy."""
    working_dir: str | None = None

    @property
    def transport(self) -> str:
        """The transport that the connection declares."""
        return self.kind


Server = Annotated[HttpServer | StdioServer, Field(discriminator="kind")]


class Timeouts(WireModel):
    """Seconds. ``request`` restarts with every progress notification, up to ``max`` in all."""

    connect: float = 5.0
    request: float = 60.0
    max: float = 600.0


class CatalogPolicy(WireModel):
    """How a mount's catalogue is kept fresh. Seconds."""

    refresh_interval: float = 300.0
    removal_grace: float = 60.0
    """How long the last known catalogue is still advertised after the backend was lost."""
    pin: str | None = None
    """Hash of the one catalogue that may be served; None: any."""


class Selection(WireModel):
    """Which of a backend's items are shown: globs (``*``, ``?``) of its own names or URIs. Exclude wins."""

    include: tuple[str, ...] = ()
    """Empty: all."""
    exclude: tuple[str, ...] = ()


class ToolSelection(Selection):
    """The same for tools, which may also get other names."""

    rename: dict[str, str] = {}
    """New name, without the prefix, by the backend's own."""


class AllowRule(WireModel):
    """Clients that may use a connection: those with all these scopes and, for each claim, one of its values."""

    scopes: tuple[str, ...] = ()
    claims: dict[str, tuple[str, ...]] = {}


class JwtAccess(WireModel):
    """Clients present a JSON Web Token."""

    issuer: str
    audience: str
    jwks_uri: str
    required_scopes: tuple[str, ...] = ()


class Access(WireModel):
    """How the clients of one proxy authenticate, and under which names it may be addressed."""

    method: Literal["unset", "none", "bearer", "jwt"] = "unset"
    """``unset``: nobody said anything. ``none``: somebody said that clients are not authenticated."""
    bearer_token: Annotated[str | None, Field(repr=False)] = None
    jwt: JwtAccess | None = None
    allowed_hosts: tuple[str, ...] = ()
    """Host names, ``*.`` wildcards and optional ports; empty: any name."""


class RateLimit(WireModel):
    """A token bucket: ``requests`` per ``per`` seconds, ``burst`` at once."""

    requests: int
    per: float = 1.0
    burst: int


class CircuitBreaker(WireModel):
    """Opens after ``consecutive_failures``, for ``open_for`` seconds."""

    consecutive_failures: int = 5
    open_for: float = 30.0


class Retry(WireModel):
    """``max_attempts`` in all; seconds between two of them, doubled each time up to ``max_backoff``."""

    max_attempts: int = 1
    backoff: float = 0.2
    max_backoff: float = 5.0


class RequestPolicy(WireModel):
    """What a request has to pass on its way to the backend. None: no such limit."""

    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None
    retry: Retry | None = None


class SessionLimits(WireModel):
    """Clients' sessions with the backend. None: no such limit."""

    idle_timeout: float | None = None
    """Seconds that a session may go unused."""
    max_sessions: int | None = None
    """In one proxy process."""


class BackendLimits(WireModel):
    """What is taken from one backend at most."""

    message_bytes: int = 64 * 1024 * 1024
    list_pages: int = 50
    list_items: int = 20_000


class ClientLimits(WireModel):
    """What is taken from clients at most."""

    request_bytes: int = 16 * 1024 * 1024
    sessions: int = 10_000


class MountSpec(WireModel):
    """One backend as the registry mounts it: resolved, validated, fingerprinted."""

    connection: ConnectionKey
    fingerprint: str
    prefix: str
    server: Server
    account: str = ""
    metadata: dict[str, Any] = {}
    timeouts: Timeouts = Timeouts()
    session: Literal["Isolated", "Shared"] = "Isolated"
    catalog: CatalogPolicy = CatalogPolicy()
    tools: ToolSelection = ToolSelection()
    resources: Selection = Selection()
    """Resources and resource templates."""
    prompts: Selection = Selection()
    limits: BackendLimits = BackendLimits()
    """Not part of the fingerprint: a change counts from the next mount on."""
    allow: tuple[AllowRule, ...] = ()
    """Who may see and use the connection: whom any of the rules admits. Empty: everybody who may use the proxy."""
    policy: RequestPolicy = RequestPolicy()
    session_limits: SessionLimits = SessionLimits()


class Rejection(WireModel):
    """A connection that is not mounted, and why. ``reason`` is a condition reason of the resource."""

    connection: ConnectionKey
    reason: str
    message: str


class DesiredMounts(WireModel):
    """Everything one proxy should serve. Mounts are ordered oldest resource first: on a clash of public
    names the earlier one keeps the name."""

    separator: str = "_"
    start_policy: Literal["Lenient", "Strict"] = "Lenient"
    drain_timeout: float = 30.0
    """Seconds a retired mount may go on with the calls in flight."""
    access: Access = Access()
    client_limits: ClientLimits = ClientLimits()
    client_rate_limit: RateLimit | None = None
    """Requests that each client may make."""
    audit_calls: bool = False
    """Log a line for each relayed request."""
    mounts: tuple[MountSpec, ...] = ()
    disabled: tuple[ConnectionKey, ...] = ()
    """Connections that exist and are switched off: their mounts retire as Disabled rather than Removed."""
    rejected: tuple[Rejection, ...] = ()
