"""Log messages and progress, for clients and backends of either era over either transport."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.features import Message
from tests.clients.site import BACKENDS, Site
from tests.proxy.client import Answer

DEBUG = {"level": "debug", "logger": "features", "data": {"at": "start"}}
ERROR = {"level": "error", "logger": "features", "data": "oh no"}


def logged(answer: Answer) -> list[Message]:
    return [each["params"] for each in answer.notifications if each["method"] == "notifications/message"]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_stateless_client_hears_what_its_request_asked_for(site: Site, backend: str) -> None:
    client = site.stateless_client()
    assert logged(await client.call(f"{backend}_talk", log_level="debug")) == [DEBUG, ERROR]
    assert logged(await client.call(f"{backend}_talk", log_level="warning")) == [ERROR]
    assert logged(await client.call(f"{backend}_talk", log_level="info")) == [ERROR]
    assert logged(await client.call(f"{backend}_talk", log_level="emergency")) == []
    assert logged(await client.call(f"{backend}_talk")) == [], "who does not ask hears nothing"
    assert logged(await client.call(f"{backend}_talk", log_level="debug")) == [DEBUG, ERROR]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_unknown_level_is_refused(site: Site, backend: str) -> None:
    answer = await site.stateless_client().call(f"{backend}_talk", log_level="loud")
    assert answer.status == 400
    assert answer.error["code"] == -32602


@pytest.mark.parametrize("backend", BACKENDS)
async def test_requests_at_the_same_time_hear_each_what_they_asked_for(site: Site, backend: str) -> None:
    client = site.stateless_client()
    levels = ["debug", "error", None, "debug", "emergency", "error"] * 3
    answers = await asyncio.gather(*(client.call(f"{backend}_talk", log_level=level) for level in levels))
    assert all(answer.text == "talked" for answer in answers)
    expected: dict[Any, list[Message]] = {"debug": [DEBUG, ERROR], "error": [ERROR]}
    for level, answer in zip(levels, answers, strict=True):
        assert all(message in expected.get(level, []) for message in logged(answer))
        if backend in ("hh", "sh"):
            # Over stdio nothing says whose a message is; among several who could be meant nobody gets it.
            assert logged(answer) == expected.get(level, [])


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_handshake_client_hears_what_it_set(site: Site, backend: str) -> None:
    client = await site.handshake_client()

    async def talked() -> list[Message]:
        client.heard.clear()
        answer = await client.call(f"{backend}_talk")
        await client.notify("notifications/initialized")  # a round trip: what was sent before it has arrived
        on_get = [each["params"] for each in client.heard_of("notifications/message")]
        return logged(answer) + on_get

    if backend.startswith("h"):
        assert await talked() == [DEBUG, ERROR], "a server may send what it likes before a level is set"
    else:
        assert await talked() == []
    assert (await client.request("logging/setLevel", {"level": "error"})).result == {}
    assert await talked() == [ERROR]
    await client.request("logging/setLevel", {"level": "debug"})
    assert await talked() == [DEBUG, ERROR]
    assert (await client.request("logging/setLevel", {"level": "loud"})).error["code"] == -32602


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("token", ["abc", 0, 7, "7"], ids=repr)
async def test_ntf_04_progress_comes_with_the_clients_token(site: Site, backend: str, token: Any) -> None:
    handshake, stateless = await site.handshake_client(), site.stateless_client()
    meta = {"progressToken": token}
    for answer in (
        await handshake.call(f"{backend}_count", _meta=meta),
        await stateless.request("tools/call", {"name": f"{backend}_count"}, meta=meta),
    ):
        assert [each["params"] for each in answer.notifications] == [
            {"progressToken": token, "progress": number, "total": 3, "message": f"step {number}"}
            for number in (1, 2, 3)
        ]
    assert (await handshake.call(f"{backend}_count")).notifications == []
    assert (await stateless.call(f"{backend}_count")).notifications == []
