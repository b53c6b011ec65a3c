"""What the suite found, check by check, and the difference between two runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

GOOD = ("SUCCESS", "INFO", "SKIPPED")
BAD = ("FAILURE", "WARNING")


class Key(NamedTuple):
    """One check of one scenario; ``nth`` tells those of the same name apart."""

    scenario: str
    check: str
    name: str
    nth: int

    @property
    def short(self) -> str:
        """As the suite's own lists of expected failures name it."""
        return f"{self.scenario}:{self.check}"


class Check(NamedTuple):
    """What one check came to."""

    status: str
    message: str


@dataclass(frozen=True)
class Results:
    """All checks of one run."""

    checks: Mapping[Key, Check]

    @classmethod
    def read(cls, folder: Path, expected: Sequence[str]) -> Results:
        """The results that the suite wrote into ``folder``. A scenario that wrote none has failed."""
        checks: dict[Key, Check] = {}
        for scenario in expected:
            files = sorted(folder.glob(f"server-{scenario}-[0-9][0-9][0-9][0-9]-*/checks.json"))
            if not files:
                checks[Key(scenario, scenario, "NotRun", 1)] = Check("FAILURE", "it ended without any result")
            for file in files:
                checks.update(_checks(scenario, json.loads(file.read_text())))
        return cls(checks)

    def updated(self, newer: Results) -> Results:
        """These, but for the scenarios that ``newer`` holds."""
        replaced = {key.scenario for key in newer.checks}
        kept = {key: check for key, check in self.checks.items() if key.scenario not in replaced}
        return Results({**kept, **newer.checks})

    def of(self, *statuses: str) -> dict[Key, Check]:
        """The checks with one of these statuses."""
        return {key: check for key, check in self.checks.items() if check.status in statuses}

    @property
    def failed(self) -> set[str]:
        """The scenarios in which anything failed."""
        return {key.scenario for key in self.of("FAILURE")}

    def total(self) -> str:
        """How many checks came to what, and how many scenarios passed."""
        counts = Counter(check.status for check in self.checks.values())
        scenarios = {key.scenario for key in self.checks}
        counted = ", ".join(f"{counts[status]} {status}" for status in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED"))
        return f"{len(scenarios - self.failed)} of {len(scenarios)} scenarios pass; checks: {counted}"


def _checks(scenario: str, raw: list[dict[str, Any]]) -> dict[Key, Check]:
    found: dict[Key, Check] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for check in raw:
        same = (check["id"], check["name"])
        seen[same] += 1
        found[Key(scenario, *same, seen[same])] = Check(check["status"], check.get("errorMessage") or "")
    return found


def lost(direct: Results, proxied: Results) -> dict[Key, str]:
    """What was good directly and is bad, or gone, through the proxy, and what the suite says of it."""
    losses = {
        key: check.message or check.status
        for key, check in proxied.of(*BAD).items()
        if key not in direct.checks or direct.checks[key].status in GOOD
    }
    gone = direct.of("SUCCESS").keys() - proxied.checks.keys()
    return losses | dict.fromkeys(gone, "it was not checked")
