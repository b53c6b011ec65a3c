"""The soak, for as long as a test may take: see ``soak`` for the long form."""

from __future__ import annotations

from tests.soak.soak import Settings, soak


async def test_a_minute_of_faults_and_reloads() -> None:
    report = await soak(Settings(seconds=60.0, sessions=40, backends=6))
    print(report.text())
    assert report.objections() == []
    assert report.ledger.answered > 500
    assert sum(report.faults.values()) > 10
    assert report.ledger.notices > 0
