"""What a serving proxy keeps of files that are invalid, as far as it can be told from outside."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mcp_connections.folder.held import Held, Unclear, steps_with_held
from mcp_connections.folder.reader import InvalidFile
from mcp_connections.mounts.plan import Action, Disabled, Reject, Retire, plan
from mcp_connections.mounts.report import MountReport, RegistryReport
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, Rejection

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str) -> ConnectionKey:
    return ConnectionKey(name=name)


def observed(*names: str, disabled: tuple[str, ...] = ()) -> RegistryReport:
    mounts = tuple(
        MountReport(
            connection=key(name),
            fingerprint="f",
            prefix=name,
            transport="http",
            ready=True,
            attempted=True,
            reason="Ready",
            message="",
            since=NOW,
        )
        for name in names
    )
    return RegistryReport(
        instance="i", ready=True, separator="_", mounts=mounts, disabled=tuple(key(name) for name in disabled)
    )


def invalid(*names: str) -> InvalidFile:
    return InvalidFile(file=f"{'-'.join(names)}.yaml", connections=frozenset(("default", name) for name in names))


UNREADABLE = InvalidFile(file="x.yaml", connections=None)


def steps(
    files: list[InvalidFile], report: RegistryReport, desired: DesiredMounts | None = None
) -> dict[str, type[Action]]:
    found = steps_with_held(plan(desired or DesiredMounts(), report), files, report)
    assert len({step.connection for step in found}) == len(found), "one line for each connection"
    return {step.connection.name: type(step) for step in found}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], {"a": Retire, "b": Retire}),
        ([invalid("a")], {"a": Held, "b": Retire}),
        ([invalid("a", "b")], {"a": Held, "b": Held}),
        ([invalid()], {"a": Retire, "b": Retire}),
        ([UNREADABLE], {"a": Unclear, "b": Unclear}),
        ([UNREADABLE, invalid("a")], {"a": Held, "b": Unclear}),
        ([invalid("renamed")], {"a": Unclear, "b": Unclear}),
        ([invalid("off", "a")], {"a": Held, "b": Retire}),
    ],
)
def test_a_mount_that_no_valid_file_declares(files: list[InvalidFile], expected: dict[str, type[Action]]) -> None:
    assert steps(files, observed("a", "b", disabled=("off",))) == expected


def test_a_connection_whose_secret_may_be_in_an_invalid_file() -> None:
    missing = Rejection(connection=key("a"), reason="SecretNotFound", message="Secret default/s does not exist.")
    clash = Rejection(connection=key("b"), reason="AmbiguousPrefix", message="m")
    desired = DesiredMounts(rejected=(missing, clash))
    assert steps([invalid()], observed("a"), desired) == {"a": Unclear, "b": Reject}

    (step,) = [
        each
        for each in steps_with_held(plan(desired, observed("a")), [invalid()], observed("a"))
        if isinstance(each, Unclear)
    ]
    assert step.reason.endswith("Otherwise: SecretNotFound: Secret default/s does not exist.")


def test_what_valid_files_say_of_a_mount_stands() -> None:
    desired = DesiredMounts(disabled=(key("a"), key("c")))
    assert steps([UNREADABLE], observed("a", "b"), desired) == {"a": Retire, "b": Unclear, "c": Disabled}
