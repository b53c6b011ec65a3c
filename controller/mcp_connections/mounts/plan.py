"""The plan: what has to happen so that a registry serves what is desired, each step with its reason.

A registry, an operator and ``mcp-connections plan`` all decide by this one comparison; they differ only in what
they do with the steps. Observations are compared by fingerprint, never by content: what a fingerprint does not
cover cannot make a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from mcp_connections.mounts.report import MountReport, RegistryReport, RetireReason
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, MountSpec, Rejection


@dataclass(frozen=True, kw_only=True)
class Action:
    """A step concerning one connection. ``reason`` is a sentence for people."""

    connection: ConnectionKey
    reason: str


@dataclass(frozen=True, kw_only=True)
class Keep(Action):
    """The mount stays the object it is, with its sessions and the calls in flight."""

    spec: MountSpec


@dataclass(frozen=True, kw_only=True)
class Add(Action):
    """A mount where the connection has none."""

    spec: MountSpec


@dataclass(frozen=True, kw_only=True)
class Replace(Action):
    """A new mount takes over; the observed one retires as ``cause``."""

    spec: MountSpec
    observed: MountReport
    cause: RetireReason


@dataclass(frozen=True, kw_only=True)
class Retire(Action):
    """The observed mount is taken out of service and nothing comes in its place."""

    observed: MountReport
    cause: RetireReason


@dataclass(frozen=True, kw_only=True)
class Reject(Action):
    """The connection is not mounted; ``rejection`` holds the condition reason. A mount it had retires besides."""

    rejection: Rejection


@dataclass(frozen=True, kw_only=True)
class Disabled(Action):
    """The connection is switched off and has no mount."""


_A = TypeVar("_A", bound=Action)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All steps: those for desired connections oldest first, then disabled ones, rejections and mounts to retire."""

    actions: tuple[Action, ...]
    settings: tuple[str, ...] = ()
    """What changes for the proxy as a whole, as sentences."""
    rejections_changed: bool = False
    """The registry reports other rejections than the desired ones."""
    disabled_changed: bool = False
    """The registry reports other disabled connections than the desired ones."""

    @property
    def is_noop(self) -> bool:
        """Applying the desired mounts would change neither the registry nor anything it reports."""
        changes = any(isinstance(action, Add | Replace | Retire) for action in self.actions)
        return not (changes or self.settings or self.rejections_changed or self.disabled_changed)

    def of(self, kind: type[_A]) -> tuple[_A, ...]:
        """The steps of one kind, in order."""
        return tuple(action for action in self.actions if isinstance(action, kind))


def plan(desired: DesiredMounts, observed: RegistryReport | None) -> Plan:
    """Compare what one registry should serve with what it reports; None stands for a registry that has nothing yet.

    Connections are matched by namespace and name. A mount is kept only where uid and fingerprint are equal.
    """
    mounts = {_place(mount.connection): mount for mount in observed.mounts} if observed else {}
    disabled = set(map(_place, desired.disabled))
    rejected = {_place(each.connection): each for each in desired.rejected}
    actions = [_mount_action(spec, mounts.pop(_place(spec.connection), None)) for spec in desired.mounts]
    actions += [Disabled(connection=each, reason=_DISABLED) for each in desired.disabled if _place(each) not in mounts]
    actions += [
        Reject(connection=each.connection, reason=f"{each.reason}: {each.message}", rejection=each)
        for each in desired.rejected
    ]
    actions += [_retire(mount, place in disabled, rejected.get(place)) for place, mount in mounts.items()]
    reported = observed.rejected if observed else ()
    switched_off = observed.disabled if observed else ()
    return Plan(
        actions=tuple(actions),
        settings=_setting_changes(desired, observed),
        rejections_changed=set(map(_as_line, desired.rejected)) != set(map(_as_line, reported)),
        disabled_changed=switched_off is not None and disabled != set(map(_place, switched_off)),
    )


_DISABLED: Final = "The connection is disabled (spec.enabled is false)."


def _place(connection: ConnectionKey) -> tuple[str, str]:
    return connection.namespace, connection.name


def _as_line(rejection: Rejection) -> str:
    return rejection.model_dump_json()


def _mount_action(spec: MountSpec, mount: MountReport | None) -> Action:
    if mount is None:
        return Add(connection=spec.connection, reason="Not mounted yet.", spec=spec)
    if mount.connection.uid != spec.connection.uid:
        reason = (
            f"The resource was deleted and created again (uid {mount.connection.uid!r} is now {spec.connection.uid!r})."
        )
        return Replace(connection=spec.connection, reason=reason, spec=spec, observed=mount, cause="Removed")
    if mount.fingerprint != spec.fingerprint:
        return Replace(
            connection=spec.connection, reason=_difference(spec, mount), spec=spec, observed=mount, cause="Changed"
        )
    return Keep(connection=spec.connection, reason=f"Unchanged (fingerprint {spec.fingerprint}).", spec=spec)


def _difference(spec: MountSpec, mount: MountReport) -> str:
    facts = [f"fingerprint {mount.fingerprint} is now {spec.fingerprint}"]
    if mount.prefix != spec.prefix:
        facts.append(f"prefix {mount.prefix!r} is now {spec.prefix!r}")
    if mount.transport != spec.server.transport:
        facts.append(f"transport {mount.transport} is now {spec.server.transport}")
    return f"Changed: {', '.join(facts)}."


def _retire(mount: MountReport, disabled: bool, rejection: Rejection | None) -> Retire:
    cause: RetireReason
    if disabled:
        cause, reason = "Disabled", _DISABLED
    elif rejection:
        cause, reason = "Changed", f"The connection is no longer accepted ({rejection.reason})."
    else:
        cause, reason = "Removed", "The connection no longer exists, or names another proxy."
    return Retire(connection=mount.connection, reason=reason, observed=mount, cause=cause)


def _setting_changes(desired: DesiredMounts, observed: RegistryReport | None) -> tuple[str, ...]:
    if observed is None or observed.separator == desired.separator:
        return ()
    return (f"The separator {observed.separator!r} is now {desired.separator!r}: every public name changes.",)
