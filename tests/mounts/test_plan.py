"""Desired against observed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.mounts.plan import Action, Add, Disabled, Keep, Plan, Reject, Replace, Retire, plan
from mcp_connections.mounts.report import MountReport, RegistryReport
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec, Rejection

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str, uid: str = "u") -> ConnectionKey:
    return ConnectionKey(name=name, uid=uid)


def spec(name: str, fingerprint: str = "f1", uid: str = "u", prefix: str = "p") -> MountSpec:
    server = HttpServer(url="http://127.0.0.1/mcp")
    return MountSpec(connection=key(name, uid), fingerprint=fingerprint, prefix=prefix, server=server)


def mounted(name: str, fingerprint: str = "f1", uid: str = "u", transport: str = "http") -> MountReport:
    return MountReport(
        connection=key(name, uid),
        fingerprint=fingerprint,
        prefix="p",
        transport=transport,
        ready=True,
        attempted=True,
        reason="Ready",
        message="",
        since=NOW,
    )


def report(*mounts: MountReport, **members: Any) -> RegistryReport:
    return RegistryReport(**{"instance": "i", "ready": True, "separator": "_", "mounts": mounts, **members})


def kinds(outcome: Plan) -> list[tuple[type[Action], str]]:
    return [(type(action), action.connection.name) for action in outcome.actions]


def test_every_kind_of_step_with_its_reason() -> None:
    rejection = Rejection(connection=key("bad"), reason="SecretNotFound", message="Secret default/x does not exist.")
    desired = DesiredMounts(
        mounts=(spec("kept"), spec("new"), spec("edited", "f2", prefix="q"), spec("recreated", uid="v")),
        disabled=(key("off"),),
        rejected=(rejection,),
    )
    observed = report(*map(mounted, ["gone", "kept", "edited", "recreated", "off", "bad"]))

    outcome = plan(desired, observed)

    assert kinds(outcome) == [
        (Keep, "kept"),
        (Add, "new"),
        (Replace, "edited"),
        (Replace, "recreated"),
        (Reject, "bad"),
        (Retire, "gone"),
        (Retire, "off"),
        (Retire, "bad"),
    ]
    assert [action.reason for action in outcome.actions] == [
        "Unchanged (fingerprint f1).",
        "Not mounted yet.",
        "Changed: fingerprint f1 is now f2, prefix 'p' is now 'q'.",
        "The resource was deleted and created again (uid 'u' is now 'v').",
        "SecretNotFound: Secret default/x does not exist.",
        "The connection no longer exists, or names another proxy.",
        "The connection is disabled (spec.enabled is false).",
        "The connection is no longer accepted (SecretNotFound).",
    ]
    assert [action.cause for action in outcome.of(Replace)] == ["Changed", "Removed"]
    assert [action.cause for action in outcome.of(Retire)] == ["Removed", "Disabled", "Changed"]
    assert not outcome.is_noop


def test_a_registry_with_nothing_gets_everything() -> None:
    assert kinds(plan(DesiredMounts(mounts=(spec("a"), spec("b"))), None)) == [(Add, "a"), (Add, "b")]
    assert plan(DesiredMounts(), None).is_noop


def test_another_transport_is_named() -> None:
    outcome = plan(DesiredMounts(mounts=(spec("a", "f2"),)), report(mounted("a", transport="sse")))

    assert "transport sse is now http" in outcome.actions[0].reason


def test_a_changed_separator_is_no_noop_although_every_mount_is_kept() -> None:
    outcome = plan(DesiredMounts(separator=".", mounts=(spec("a"),)), report(mounted("a")))

    assert kinds(outcome) == [(Keep, "a")]
    assert outcome.settings == ("The separator '_' is now '.': every public name changes.",)
    assert not outcome.is_noop


def test_known_rejections_are_a_noop_and_new_ones_are_not() -> None:
    rejection = Rejection(connection=key("bad"), reason="InvalidSpec", message="m")
    desired = DesiredMounts(rejected=(rejection,))

    assert plan(desired, report(rejected=(rejection,))).is_noop
    assert not plan(desired, report()).is_noop
    assert not plan(desired, None).is_noop
    assert not plan(DesiredMounts(), report(rejected=(rejection,))).is_noop


NAMES = st.sampled_from("abcde")
VERSIONS = st.tuples(st.sampled_from(["f1", "f2"]), st.sampled_from(["u", "v"]))
TABLES = st.dictionaries(NAMES, VERSIONS)


def test_a_disabled_connection_without_a_mount_is_told() -> None:
    outcome = plan(DesiredMounts(disabled=(key("off"),)), None)

    assert kinds(outcome) == [(Disabled, "off")]
    assert outcome.actions[0].reason == "The connection is disabled (spec.enabled is false)."


def test_known_disabled_connections_are_a_noop_and_new_ones_are_not() -> None:
    desired = DesiredMounts(disabled=(key("off"),))

    assert plan(desired, report(disabled=(key("off"),))).is_noop
    assert not plan(desired, report(disabled=())).is_noop
    assert not plan(DesiredMounts(), report(disabled=(key("off"),))).is_noop
    assert plan(desired, report(disabled=None)).is_noop, "an older proxy does not tell"


@given(wanted=TABLES, present=TABLES, off=st.sets(NAMES))
@settings(max_examples=150, deadline=None)
def test_carrying_out_a_plan_gives_what_was_desired(
    wanted: dict[str, tuple[str, str]], present: dict[str, tuple[str, str]], off: set[str]
) -> None:
    desired = DesiredMounts(
        mounts=tuple(spec(name, *version) for name, version in wanted.items() if name not in off),
        disabled=tuple(key(name) for name in sorted(off)),
    )
    table = dict(present)

    outcome = plan(desired, report(*(mounted(name, *version) for name, version in present.items())))
    for action in outcome.actions:
        match action:
            case Add() | Replace():
                assert (action.connection.name in table) == isinstance(action, Replace)
                table[action.connection.name] = (action.spec.fingerprint, action.spec.connection.uid)
            case Retire():
                del table[action.connection.name]

    assert table == {name: version for name, version in wanted.items() if name not in off}
    again = plan(desired, report(*(mounted(name, *version) for name, version in table.items())))
    assert again.is_noop
    assert all(isinstance(action, Keep | Disabled) for action in again.actions)
