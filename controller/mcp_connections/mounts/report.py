"""What is mounted: the wire form of what a registry observed and did.

``GET /admin/v1/mounts`` answers with a RegistryReport, ``PUT`` with a ReloadResult.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mcp_connections.mounts.spec import ConnectionKey, Rejection, WireModel

Phase = Literal["Connect", "Initialize", "Discover"]
RetireReason = Literal["Changed", "Disabled", "Removed"]


class ServerReport(WireModel):
    """What the backend said of itself in its handshake."""

    name: str = ""
    version: str = ""
    protocol_version: str = ""


class CatalogNote(WireModel):
    """One item that is left out of, or altered in, the public catalogue, and why."""

    kind: Literal["tool", "resource", "resourceTemplate", "prompt", "list"]
    name: str
    reason: str


class CatalogReport(WireModel):
    """Counts of what a mount contributes to the public catalogue."""

    tools: int = 0
    resources: int = 0
    resource_templates: int = 0
    prompts: int = 0
    hash: str = ""
    """Of what the backend has now, which is something else than what is served where that is withheld."""
    names: tuple[str, ...] = ()
    """The first 50 public tool names."""
    skipped: tuple[CatalogNote, ...] = ()
    """Items left out: malformed, or their public name belongs to another tool or an older connection."""
    notices: tuple[CatalogNote, ...] = ()
    """Items served with a remark: an alias for a long name, a name over 64 characters. Patterns that match nothing."""


class RefusedReport(WireModel):
    """Requests that never went to the backend, by the limit that refused them, since the mount was made."""

    concurrency: int = 0
    rate: int = 0
    circuit: int = 0
    sessions: int = 0


class PolicyReport(WireModel):
    """What a mount's policies are doing."""

    circuit: Literal["Closed", "Open", "HalfOpen"] | None = None
    """State of the circuit breaker; None without one. HalfOpen: a request is, or the next one will be, let through as
    a trial."""
    waiting: int = 0
    """Requests in flight that wait for their turn (policy.maxConcurrency)."""
    refused: RefusedReport = RefusedReport()
    retries: int = 0
    """Attempts beyond the first ones, since the mount was made."""


class MountReport(WireModel):
    """One mount as its registry sees it now."""

    connection: ConnectionKey
    fingerprint: str
    prefix: str
    transport: str
    """http, sse, webSocket or stdio."""
    ready: bool
    """A live control session and a catalogue that may be served."""
    attempted: bool
    """The first attempt to connect has ended, well or badly."""
    reason: str
    """Ready, Connecting, Unreachable, Timeout, Unauthorized, ProtocolError, CommandNotFound, Exited or
    CatalogChanged."""
    message: str
    phase: Phase | None = None
    """Where the last attempt failed; None while ready."""
    since: datetime
    in_flight: int = 0
    sessions: int = 0
    policy: PolicyReport = PolicyReport()
    server: ServerReport | None = None
    catalog: CatalogReport = CatalogReport()
    last_handshake: datetime | None = None
    last_error: str | None = None
    """The last failure, kept after recovery: whoever looks seldom has to learn of it too."""
    last_error_at: datetime | None = None
    """When it was first seen; it may have repeated itself since."""
    exits: int = 0
    """How often the command of a stdio connection ended by itself, in any session, since the mount was made."""
    next_retry: datetime | None = None


class RetiredMount(WireModel):
    """A mount taken out of service. Closed only once its sessions are deleted and its processes gone."""

    connection: ConnectionKey
    fingerprint: str
    reason: RetireReason
    retired_at: datetime
    in_flight: int = 0
    state: Literal["Draining", "Closed"] = "Draining"


class SkippedMount(WireModel):
    """A mount that is in the table but not up: in which phase its attempt failed, and how."""

    connection: ConnectionKey
    phase: Phase
    error: str


class ReloadResult(WireModel):
    """What one ``Registry.apply`` did."""

    kept: tuple[ConnectionKey, ...] = ()
    added: tuple[ConnectionKey, ...] = ()
    replaced: tuple[ConnectionKey, ...] = ()
    retired: tuple[RetiredMount, ...] = ()
    """Mounts that this reload took out of service: replaced, disabled and removed ones."""
    rejected: tuple[Rejection, ...] = ()
    skipped: tuple[SkippedMount, ...] = ()


class RegistryReport(WireModel):
    """The whole registry of one proxy process."""

    instance: str
    """Changes when the process is another: observations of different instances are not compared."""
    ready: bool
    """What /readyz answers."""
    separator: str
    mounts: tuple[MountReport, ...] = ()
    retired: tuple[RetiredMount, ...] = ()
    """The last 20 retired mounts, newest last."""
    rejected: tuple[Rejection, ...] = ()
    disabled: tuple[ConnectionKey, ...] | None = None
    """Connections that are switched off. None: of a version that does not tell."""
