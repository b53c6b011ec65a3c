"""Status of an McpConnection: what the operator observed, bounded so that the API server always accepts it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mcp_connections.api.bounds import Clip, Keep
from mcp_connections.api.meta import Conditions
from mcp_connections.api.model import ApiModel, Time

MAX_NAMES = 50
"""Public tool names listed in status.catalog.names."""
MAX_NOTES = 50
"""Entries of status.catalog.skipped, and of notices."""
MAX_POLICIES = 16
"""Entries of status.mount.policies."""
MAX_RETIRED = 20
"""Retired mounts kept in status."""
MAX_ERROR = 4096
"""Characters of status.lastError."""

Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, Clip(1024)]


class MountStatus(ApiModel):
    """The mount that serves the connection now."""

    fingerprint: Annotated[str, Clip(128)] | None = None
    """Hash over everything that affects the transport or identity of the connection. Another one is another mount."""
    since: Time | None = None
    """When this mount was made, in the replica where it is oldest."""
    replicas: Count = 0
    """Ready replicas of the proxy that have this mount."""
    prefix: Annotated[str, Clip(64)] | None = None
    """The prefix in use, given or derived."""
    transport: Annotated[str, Clip(32)] | None = None
    """http, sse, webSocket or stdio."""
    url: Annotated[str, Clip(2048)] | None = None
    """URL of the backend without credentials and query. Not set for stdio."""
    policies: Annotated[tuple[_Text, ...], Keep(first=MAX_POLICIES)] = ()
    """What the mount acts on, with its values: timeouts, limits, circuit breaker, retry, session, catalog."""


class PodStatus(ApiModel):
    """The pod that runs the command of a stdio connection."""

    name: Annotated[str, Clip(253)] | None = None
    """Name of the pod. Not set while there is none."""
    ready: bool = False
    """Whether the pod serves. What the command says of itself is in the conditions."""
    restarts: Count = 0
    """How often the pod's container was started again."""
    command_exits: Count = 0
    """How often the command ended by itself, in any session, since mount.since. It is started again within the
    container; lastError has its exit code and the end of its stderr."""
    last_exit: _Text | None = None
    """How the container last ended, for example ``OOMKilled (exit code 137)``."""
    message: _Text | None = None
    """What keeps the pod from running."""


class ConnectionRef(ApiModel):
    """A connection, by everything that tells it from others of the same name."""

    namespace: Annotated[str, Clip(63)]
    """Namespace of the McpConnection."""
    name: Annotated[str, Clip(253)]
    """Name of the McpConnection."""
    uid: Annotated[str, Clip(128)] = ""
    """UID of the McpConnection."""


class RetiredMountStatus(ApiModel):
    """A mount taken out of service."""

    connection: ConnectionRef
    """The connection that it served."""
    fingerprint: Annotated[str, Clip(128)]
    """Fingerprint of the mount."""
    reason: Literal["Changed", "Disabled", "Removed"]
    """Why it was retired."""
    retired_at: Time
    """When it was taken out of service."""
    in_flight: Count = 0
    """Calls that it still has to finish."""
    state: Literal["Draining", "Closed"]
    """Draining while calls finish. Closed once its sessions are ended and its processes gone."""


RetiredMounts = Annotated[tuple[RetiredMountStatus, ...], Keep(last=MAX_RETIRED)]


class CatalogNoteStatus(ApiModel):
    """One item of the backend that is left out or altered, and why."""

    kind: Annotated[str, Clip(32)]
    """tool, resource, resourceTemplate, prompt or list."""
    name: _Text
    """Name or URI of the item."""
    reason: _Text
    """Why."""


_Notes = Annotated[tuple[CatalogNoteStatus, ...], Keep(first=MAX_NOTES)]


class CatalogCounts(ApiModel):
    """How many items are shown to clients."""

    tools: Count = 0
    """Tools shown."""
    resources: Count = 0
    """Resources shown."""
    resource_templates: Count = 0
    """Resource templates shown."""
    prompts: Count = 0
    """Prompts shown."""


class CatalogStatus(CatalogCounts):
    """What the connection contributes to the proxy's catalogue."""

    hash: Annotated[str, Clip(128)] = ""
    """Hash of what the backend has now, for spec.catalog.pin."""
    names: Annotated[tuple[_Text, ...], Keep(first=MAX_NAMES)] = ()
    """The first 50 public tool names."""
    skipped: _Notes = ()
    """Items left out, at most 50."""
    notices: _Notes = ()
    """Items shown with a remark, such as an alias for a name that is too long, at most 50."""


class ServerStatus(ApiModel):
    """What the backend said of itself in its handshake."""

    name: _Text = ""
    """Name of the server."""
    version: _Text = ""
    """Version of the server."""
    protocol_version: Annotated[str, Clip(64)] = ""
    """Version of MCP agreed on."""


class McpConnectionStatus(ApiModel):
    """What the operator observed."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """metadata.generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Ready: a live session and a catalogue. Accepted: the spec is valid, its references resolve, its names are
    unambiguous. Mounted: every ready replica of the proxy has this fingerprint."""
    mount: MountStatus | None = None
    """The mount that serves the connection now."""
    pod: PodStatus | None = None
    """The pod that runs the command of a stdio connection. Not set for other transports."""
    retired_mounts: RetiredMounts = ()
    """The last 20 mounts that were taken out of service, newest last."""
    catalog: CatalogStatus | None = None
    """What the connection contributes to the proxy's catalogue."""
    server: ServerStatus | None = None
    """What the backend said of itself in its handshake."""
    circuit_breaker: Literal["Closed", "Open", "HalfOpen"] | None = None
    """State of policy.circuitBreaker, in the replica where it is worst: while Open, requests are refused; while
    HalfOpen, the next one is the trial. Not set without a circuit breaker."""
    last_handshake: Time | None = None
    """When the backend last completed a handshake."""
    last_error: Annotated[str, Clip(MAX_ERROR)] | None = None
    """The last failure, kept after recovery."""
    next_retry: Time | None = None
    """When the next attempt to connect is due."""
