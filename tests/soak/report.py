"""What a soak found: a table, and whatever in it must not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.soak.ledger import Ledger
from tests.soak.process import Sample, thirds

IDLE_SHARE = 0.02
"""Of one core."""
GROWTH = Sample(memory=0.10, files=0.10, children=0.10, tasks=0.10)
ALLOWANCE = Sample(memory=12.0, files=20.0, children=2.0, tasks=20.0)
"""What the last third of the samples may lie above the first: a share of it, and something for chance on top."""
LEFT = Sample(memory=40.0, files=16.0, children=0.0, tasks=10.0)
"""What may be left when the clients have gone, on top of what was left when they went the first time. Memory is what
the allocator keeps; files are connections to backends that are kept for the next request."""
RELOADS_A_SECOND = 1 / 3
"""A busy machine may see two changes of a file at once."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The figures."""

    settings: dict[str, Any]
    ledger: Ledger
    faults: dict[str, int]
    reloads: float
    samples: list[Sample]
    before: Sample
    """Without clients, after they were there for a moment."""
    opened: Sample
    """With all sessions, after the faults."""
    after: Sample
    """Without clients again."""
    idle: float

    def objections(self) -> list[str]:
        """Everything that must not be."""
        found = list(self.ledger.violations)
        if self.ledger.wrong > len(found):
            found.append(f"and {self.ledger.wrong - len(found)} more like these")
        for name in Sample._fields:
            first, last = thirds([getattr(sample, name) for sample in self.samples])
            limit = first * (1 + getattr(GROWTH, name)) + getattr(ALLOWANCE, name)
            if last > limit:
                found.append(f"{name} grew from {first:.1f} to {last:.1f}, more than to {limit:.1f}")
            left, limit = getattr(self.after, name), getattr(self.before, name) + getattr(LEFT, name)
            if left > limit:
                found.append(f"{name}: {left:.1f} are left when the clients have gone, more than {limit:.1f}")
        if self.idle > IDLE_SHARE:
            found.append(f"idle, it takes {self.idle:.1%} of a core, more than {IDLE_SHARE:.0%}")
        if self.reloads < self.settings["seconds"] / self.settings["reload"] * RELOADS_A_SECOND:
            found.append(f"only {self.reloads:.0f} reloads")
        return found

    def text(self) -> str:
        """All of it, for a terminal."""
        ledger = self.ledger
        lines = [
            " ".join(f"{name}={value:g}" for name, value in self.settings.items()),
            f"calls         {ledger.calls}: {ledger.answered} answered, {ledger.notices} notifications",
            f"errors        {sum(ledger.errors.values())} ({_counts(ledger.errors)})",
            f"sessions      {ledger.sessions} opened",
            f"faults        {sum(self.faults.values())} ({_counts(self.faults)})",
            f"reloads       {self.reloads:.0f}",
            f"idle          {self.idle:.2%} of a core",
            "",
            f"{'':14}{'before':>10}{'first third':>13}{'last third':>13}{'all open':>10}{'after':>10}",
        ]
        for name in Sample._fields:
            first, last = thirds([getattr(sample, name) for sample in self.samples])
            before, opened, after = (getattr(each, name) for each in (self.before, self.opened, self.after))
            lines.append(f"{name:14}{before:>10.1f}{first:>13.1f}{last:>13.1f}{opened:>10.1f}{after:>10.1f}")
        objections = self.objections()
        lines += ["", *(f"WRONG: {each}" for each in objections)] if objections else ["", "nothing is wrong"]
        return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
