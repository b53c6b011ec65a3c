"""A pod that takes its time to start: the mount does not hold it against the command that runs in it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from mcp_connections.mounts.spec import HttpServer
from mcp_connections.proxy.channels.bridge_faults import told
from mcp_connections.proxy.channels.channel import Exited
from mcp_connections.proxy.channels.exits import Exits
from mcp_connections.proxy.registry import control
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

FIRST_PAUSE = 0.02
ATTEMPTS = 8
"""The next pause would be 2.56 s."""


async def has_ended(seen: Seen) -> HttpAnswer | None:
    if seen.message is None:
        return None
    error = json.loads(told(Exited("exited with code 1"), Exits()).body())
    body = {"jsonrpc": "2.0", "id": seen.message.get("id"), "error": error}
    return HttpAnswer(200, json.dumps(body).encode(), {"content-type": "application/json"})


async def test_a_command_is_started_again_as_soon_as_if_its_pod_had_been_there_at_once(
    proxy: RunningProxy, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "FIRST_PAUSE", FIRST_PAUSE)
    monkeypatch.setattr(control, "POD_PAUSE", FIRST_PAUSE)
    await backend.stop()
    spec = http("one", backend.url)
    await proxy.apply(spec.model_copy(update={"server": HttpServer(url=backend.url, bridged=True)}))
    attempts = set()

    def tried_often() -> bool:
        attempts.add(proxy.report("one").next_retry)
        return len(attempts) > ATTEMPTS

    await proxy.until(tried_often)
    assert proxy.report("one").reason == "Unreachable"
    await backend.start()
    await proxy.until_ready("one")

    backend.intercept = has_ended
    await (await proxy.client()).call("one_bump")
    await proxy.until(lambda: proxy.report("one").reason == "Exited")

    report = proxy.report("one")
    assert report.next_retry is not None
    assert report.last_error_at is not None
    assert report.next_retry - report.last_error_at < timedelta(seconds=1)
