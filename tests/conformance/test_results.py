"""Reading what the suite wrote, and telling what was lost between two runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.results import Check, Key, Results, lost


def results(**statuses: str) -> Results:
    """Checks of one scenario by their ids."""
    return Results({Key("s", check, "N", 1): Check(status, f"{check} says") for check, status in statuses.items()})


def write(folder: Path, scenario: str, *checks: tuple[str, str]) -> None:
    found = folder / f"server-{scenario}-2026-11-30T16-08-04-105Z"
    found.mkdir()
    raw = [{"id": name, "name": "N", "status": status, "errorMessage": None} for name, status in checks]
    (found / "checks.json").write_text(json.dumps(raw))


def test_checks_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "tools", ("a", "SUCCESS"), ("a", "FAILURE"))
    write(tmp_path, "tools-list", ("b", "SUCCESS"))
    read = Results.read(tmp_path, ["tools", "tools-list"])
    assert {key: check.status for key, check in read.checks.items()} == {
        Key("tools", "a", "N", 1): "SUCCESS",
        Key("tools", "a", "N", 2): "FAILURE",
        Key("tools-list", "b", "N", 1): "SUCCESS",
    }
    assert read.failed == {"tools"}
    assert read.total() == "1 of 2 scenarios pass; checks: 2 SUCCESS, 1 FAILURE, 0 WARNING, 0 SKIPPED"


def test_a_scenario_without_results_has_failed(tmp_path: Path) -> None:
    assert Results.read(tmp_path, ["gone"]).failed == {"gone"}


def test_what_was_good_and_is_bad_is_lost() -> None:
    direct = results(kept="SUCCESS", failed="SUCCESS", warned="SUCCESS", skipped="SKIPPED", gone="SUCCESS")
    proxied = results(kept="SUCCESS", failed="FAILURE", warned="WARNING", skipped="FAILURE", new="FAILURE")
    assert {key.short: message for key, message in lost(direct, proxied).items()} == {
        "s:failed": "failed says",
        "s:warned": "warned says",
        "s:skipped": "skipped says",
        "s:new": "new says",
        "s:gone": "it was not checked",
    }


def test_what_was_bad_already_is_not_lost() -> None:
    direct = results(failed="FAILURE", warned="WARNING", gone="FAILURE", said="SUCCESS")
    assert lost(direct, results(failed="FAILURE", warned="FAILURE", said="INFO")) == {}
