"""Every condition type and reason that status may carry, in one place, one line each.

They are part of the interface: scripts and alerts match on them. A reason is added here before it is used.
"""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of the conditions of an McpConnection."""

    READY = "Ready"
    """A live session with the backend and a catalogue: the summary of the others."""
    ACCEPTED = "Accepted"
    """The spec is valid, its references resolve and its names are unambiguous."""
    MOUNTED = "Mounted"
    """Every ready replica of the proxy has the connection's fingerprint."""


class ProxyConditionType(StrEnum):
    """Types of the conditions of an McpProxy."""

    AVAILABLE = "Available"
    """At least one pod serves the endpoint; with startPolicy Strict, only while every connection is ready."""
    ACCEPTED = "Accepted"
    """The spec is valid and its references resolve."""
    PROGRAMMED = "Programmed"
    """Every ready pod has the desired mounts."""


class Reason(StrEnum):
    """Reasons of the conditions of an McpConnection."""

    # Accepted
    ACCEPTED = "Accepted"
    """Accepted=True: nothing is wrong with the resource."""
    INVALID_SPEC = "InvalidSpec"
    """Accepted=False: a field of the spec is invalid; the message names it."""
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  (a name, not a secret)
    """Accepted=False: a Secret or ConfigMap that the spec refers to does not exist."""
    KEY_NOT_FOUND = "KeyNotFound"
    """Accepted=False: a Secret or ConfigMap that the spec refers to has no such key."""
    INVALID_SECRET = "InvalidSecret"  # noqa: S105  (a name, not a secret)
    """Accepted=False: the referenced value cannot be used: empty, not UTF-8, or with a line break inside."""
    PREFIX_CONFLICT = "PrefixConflict"
    """Accepted=False: an older connection of the same proxy has the same prefix."""
    AMBIGUOUS_PREFIX = "AmbiguousPrefix"
    """Accepted=False: the prefix with its separator begins that of an older connection, or the other way round."""
    PROXY_NOT_FOUND = "ProxyNotFound"
    """Accepted=False: the McpProxy named in proxyRef does not exist in the namespace."""
    STDIO_NOT_ALLOWED = "StdioNotAllowed"
    """Accepted=False: the connection runs a command and the McpProxy does not set stdio.allowed."""

    APPLY_FAILED = "ApplyFailed"
    """Accepted=False: the API server refuses an object generated for the connection; the message quotes it."""

    # Mounted
    MOUNTED = "Mounted"
    """Mounted=True: every ready replica of the proxy has the fingerprint."""
    PENDING = "Pending"
    """Unknown or False: the operator or a replica has not got to it yet."""
    DRAINING = "Draining"
    """Mounted=False: a retired mount of the connection still finishes calls."""
    PROXY_UNAVAILABLE = "ProxyUnavailable"
    """Mounted or Ready is Unknown: no replica of the proxy answers."""

    # Ready
    READY = "Ready"
    """Ready=True: a live session and a catalogue."""
    CONNECTING = "Connecting"
    """Ready=False: the first attempt to connect is under way."""
    UNREACHABLE = "Unreachable"
    """Ready=False: the backend refuses or resets the connection, or its name does not resolve."""
    TIMEOUT = "Timeout"
    """Ready=False: the backend does not answer in time."""
    UNAUTHORIZED = "Unauthorized"
    """Ready=False: the backend refuses the configured credential."""
    PROTOCOL_ERROR = "ProtocolError"
    """Ready=False: the backend's answer is not what MCP or its transport asks for."""
    COMMAND_NOT_FOUND = "CommandNotFound"
    """Ready=False: the stdio command does not exist or cannot be executed."""
    EXITED = "Exited"
    """Ready=False: the stdio process ended; the message holds its exit code and the tail of its stderr."""
    CATALOG_CHANGED = "CatalogChanged"
    """Ready=False: the backend's catalogue is not the pinned one and is withheld; the message says what differs."""

    # Mounted and Ready
    DISABLED = "Disabled"
    """Mounted=False and Ready=False: spec.enabled is false."""
    NOT_ACCEPTED = "NotAccepted"
    """Mounted=False and Ready=False: the condition Accepted is False; its message says why."""

    # all three
    TERMINATING = "Terminating"
    """False: the resource is being deleted, and a finalizer of somebody else still keeps it."""


class ProxyReason(StrEnum):
    """Reasons of the conditions of an McpProxy."""

    ACCEPTED = "Accepted"
    """Accepted=True: nothing is wrong with the resource."""
    INVALID_SPEC = "InvalidSpec"
    """Accepted=False: a field of the spec is invalid; the message names it."""
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  (a name, not a secret)
    """Accepted=False: a Secret that the spec refers to does not exist."""
    KEY_NOT_FOUND = "KeyNotFound"
    """Accepted=False: a Secret that the spec refers to has no such key."""
    INVALID_SECRET = "InvalidSecret"  # noqa: S105  (a name, not a secret)
    """Accepted=False: the referenced value cannot be used: empty, not UTF-8, or with a line break inside."""
    APPLY_FAILED = "ApplyFailed"
    """Accepted=False: the API server refuses an object generated for the proxy; the message quotes it."""
    PENDING = "Pending"
    """Unknown or False: the operator or the pods have not got to it yet."""
    AVAILABLE = "Available"
    """Available=True: at least one pod serves the endpoint."""
    SCALED_TO_ZERO = "ScaledToZero"
    """Available=False: the proxy has no replicas by its own wish."""
    UNAVAILABLE = "Unavailable"
    """Available=False: no pod is ready."""
    CONNECTIONS_NOT_READY = "ConnectionsNotReady"
    """Available=False: startPolicy is Strict and a connection is not ready; the message names it."""
    PROGRAMMED = "Programmed"
    """Programmed=True: every ready pod has the desired mounts."""
    PROXY_UNREACHABLE = "ProxyUnreachable"
    """Programmed=False: a ready pod's admin port does not answer; the message names it."""
