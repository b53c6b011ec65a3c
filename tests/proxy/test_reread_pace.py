"""Backends that announce changes without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_connections.proxy.catalogue.reread_pace import BURST_SECONDS, CALM_SECONDS, LONGEST_SECONDS, RereadPace
from tests.backends.calls import Call
from tests.backends.scripted import ScriptedBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy


def test_a_change_now_and_then_is_read_at_once() -> None:
    pace = RereadPace()
    now = 100.0
    for _ in range(5):
        assert pace.pause(now) == BURST_SECONDS
        pace.read(now + 2)
        now += 2 + 1.1 * CALM_SECONDS


def test_changes_without_end_are_read_less_and_less_often() -> None:
    pace = RereadPace()
    now, pauses = 100.0, []
    for _ in range(12):
        pauses.append(pace.pause(now))
        now += pauses[-1] + 3  # however long a reading takes
        pace.read(now)
    assert pauses[:4] == [BURST_SECONDS * 2**n for n in range(4)]
    assert pauses[-1] == LONGEST_SECONDS
    assert pace.pause(now + 1.1 * CALM_SECONDS) == BURST_SECONDS


async def test_a_backend_that_announces_a_change_with_every_reading_is_not_read_all_the_time(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    pause = RereadPace.pause

    def noted(self: RereadPace, now: float) -> float:
        waited.append(pause(self, now))
        return min(waited[-1], 0.01)

    monkeypatch.setattr(RereadPace, "pause", noted)
    changing = True

    async def listing(call: Call) -> Any:
        if changing:
            backend.notify_all("notifications/tools/list_changed")
        return b'{"tools":[%s]}' % b",".join(backend.items["tools"])

    backend.handlers["tools/list"] = listing
    await proxy.apply(http("one", backend.url))
    (control,) = backend.live
    await backend.until(lambda: control.listening)
    backend.notify_all("notifications/tools/list_changed")
    await proxy.until(lambda: waited[-1:] == [LONGEST_SECONDS])
    changing = False
    await asyncio.sleep(0)
    assert waited == sorted(waited)
