"""How long a request may take, in virtual time; ``tests/proxy`` has the same in front of real backends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from msgspec import Raw

from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.channels.channel import Channel, MessageHandler, TimedOut
from mcp_connections.proxy.upstream.handshake import HandshakeSession
from mcp_connections.proxy.upstream.session import UpstreamEvents
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.hello import Hello
from mcp_connections.proxy.wire.jsonrpc import Envelope
from tests.operator.virtual_time import virtual_time

TIMEOUTS = Timeouts(request=60, max=600)


class ScriptedChannel(Channel):
    """Answers a request as the test tells it to."""

    def __init__(self, script: Callable[[MessageHandler, bytes], Awaitable[None]]) -> None:
        self._script = script
        self.sent: list[dict[str, Any]] = []

    async def open(self) -> None:
        pass

    async def exchange(
        self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes = b""
    ) -> Envelope:
        await self._script(on_message, body)
        return {"jsonrpc": jsonrpc.VERSION, "result": Raw(b"{}")}

    async def send(self, body: bytes) -> None:
        self.sent.append(json.loads(body))

    async def aclose(self) -> None:
        pass


class Events:
    """Hears what nobody here asks about."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


def request(**params: Any) -> Envelope:
    return {"jsonrpc": jsonrpc.VERSION, "method": Raw(b'"tools/call"'), "params": Raw(jsonrpc.encode(params))}


WITH_PROGRESS = request(_meta={"progressToken": "t"})


async def seconds_of(
    script: Callable[[MessageHandler, bytes], Awaitable[None]], message: Envelope
) -> tuple[float, TimedOut | None, ScriptedChannel]:
    """How long a request takes, and whether it timed out."""
    channel = ScriptedChannel(script)
    session = HandshakeSession(
        channel, hello=Hello(b"{}", b"{}"), timeouts=TIMEOUTS, events=cast(UpstreamEvents, Events())
    )
    begun = asyncio.get_running_loop().time()
    failure: TimedOut | None = None
    try:
        await session.request(message)
    except TimedOut as error:
        failure = error
    took = asyncio.get_running_loop().time() - begun
    await session.aclose()
    return took, failure, channel


def says(message: dict[str, Any]) -> Envelope:
    return jsonrpc.decode_envelope(json.dumps({"jsonrpc": "2.0", **message}).encode())


def progress(body: bytes) -> Envelope:
    token = json.loads(body)["params"]["_meta"]["progressToken"]
    return says({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})


def at(
    *moments: float, saying: Callable[[bytes], Envelope] = progress
) -> Callable[[MessageHandler, bytes], Awaitable[None]]:
    """Sends a message at each moment but the last, when it answers."""

    async def script(on_message: MessageHandler, body: bytes) -> None:
        begun = asyncio.get_running_loop().time()
        for moment in moments:
            await asyncio.sleep(begun + moment - asyncio.get_running_loop().time())
            if moment != moments[-1]:
                on_message(saying(body))

    return script


@virtual_time
async def test_an_answer_in_time_and_one_too_late() -> None:
    took, failure, _ = await seconds_of(at(59), request())
    assert (round(took), failure) == (59, None)
    took, failure, channel = await seconds_of(at(61), request())
    assert round(took) == 60
    assert str(failure) == "no answer within 60 s; raise policy.timeouts.request to allow more"
    (cancelled,) = channel.sent
    assert cancelled["method"] == "notifications/cancelled"
    assert failure is not None
    assert failure.executed, "it may have run"


@virtual_time
async def test_progress_begins_the_time_anew() -> None:
    took, failure, _ = await seconds_of(at(50, 100, 150, 200, 259), WITH_PROGRESS)
    assert (round(took), failure) == (259, None)
    took, failure, _ = await seconds_of(at(50, 100, 161), WITH_PROGRESS)
    assert round(took) == 160
    assert str(failure) == "no answer within 60 s of the last progress; raise policy.timeouts.request to allow more"


@virtual_time
async def test_but_not_beyond_the_maximum() -> None:
    took, failure, _ = await seconds_of(at(*range(30, 700, 30)), WITH_PROGRESS)
    assert round(took) == 600
    assert (
        str(failure) == "no answer within 600 s in all, whatever its progress; raise policy.timeouts.max to allow more"
    )


@virtual_time
async def test_foreign_progress_changes_nothing() -> None:
    def foreign(body: bytes) -> Envelope:
        return says({"method": "notifications/progress", "params": {"progressToken": 999, "progress": 1}})

    took, failure, _ = await seconds_of(at(30, 61, saying=foreign), WITH_PROGRESS)
    assert (round(took), failure is None) == (60, False)


@virtual_time
async def test_people_who_are_asked_get_the_maximum() -> None:
    def question(body: bytes) -> Envelope:
        return says({"id": "q", "method": "elicitation/create", "params": {}})

    took, failure, _ = await seconds_of(at(30, 500, saying=question), request())
    assert (round(took), failure) == (500, None)
    took, failure, _ = await seconds_of(at(30, 700, saying=question), request())
    assert round(took) == 630
    assert (
        str(failure) == "no answer within 600 s of the backend's last question; raise policy.timeouts.max to allow more"
    )


@virtual_time
async def test_progress_after_a_question_counts_again() -> None:
    async def script(on_message: MessageHandler, body: bytes) -> None:
        on_message(says({"id": "q", "method": "elicitation/create", "params": {}}))
        await asyncio.sleep(100)
        on_message(progress(body))
        await asyncio.sleep(100)

    took, failure, _ = await seconds_of(script, WITH_PROGRESS)
    assert round(took) == 160
    assert "60 s of the last progress" in str(failure)


@virtual_time
async def test_whoever_gives_up_has_the_request_cancelled() -> None:
    channel = ScriptedChannel(at(1000))
    session = HandshakeSession(
        channel, hello=Hello(b"{}", b"{}"), timeouts=TIMEOUTS, events=cast(UpstreamEvents, Events())
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await session.request(request())
    await session.aclose()
    assert [message["params"]["reason"] for message in channel.sent] == ["cancelled by the client"]
