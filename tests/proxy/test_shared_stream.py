"""Whose a message is that names no request, where the requests of several clients share a stream."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

from msgspec import Raw

from mcp_connections.proxy.upstream.shared_stream import MAX_GIVEN_UP, Running, SharedStream
from mcp_connections.proxy.wire.forwarded_headers import Fields
from mcp_connections.proxy.wire.jsonrpc import Envelope
from tests.proxy.client import Answer, Client
from tests.proxy.desired import stdio
from tests.proxy.running import RunningProxy

ROOT = Path(__file__).parents[2]


class Of:
    """The scope of a request of a client."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.fields: Fields = ()

    def deliver(self, message: bytes) -> None:
        """Nothing is delivered here."""


def begin(stream: SharedStream, request_id: int, client: str, method: str = "tools/call") -> Of:
    scope = Of(client)
    message: Envelope = {"method": Raw(f'"{method}"'.encode())}
    stream.running[request_id] = Running(message, scope, cast("asyncio.Timeout", None))
    return scope


def give_up(stream: SharedStream, request_id: int) -> None:
    stream.give_up(request_id)
    del stream.running[request_id]


def owner(stream: SharedStream) -> Any:
    found = stream.candidates(lambda message: True)[1]
    return found and found.scope


async def test_a_message_belongs_to_the_only_request_there_is() -> None:
    stream = SharedStream(60.0)
    assert owner(stream) is None
    first = begin(stream, 1, "a")
    assert owner(stream) is first
    begin(stream, 2, "a")
    assert owner(stream) is None
    del stream.running[2]
    assert owner(stream) is first


async def test_a_request_that_was_given_up_counts_until_it_is_answered() -> None:
    stream = SharedStream(60.0)
    begin(stream, 1, "a")
    give_up(stream, 1)
    other = begin(stream, 2, "b")
    assert owner(stream) is None
    stream.answered(7)
    assert owner(stream) is None
    stream.answered(1)
    assert owner(stream) is other


async def test_a_client_s_own_request_that_was_given_up_does_no_harm() -> None:
    stream = SharedStream(60.0)
    begin(stream, 1, "a")
    give_up(stream, 1)
    mine = begin(stream, 2, "a")
    assert owner(stream) is mine


async def test_a_request_that_the_message_cannot_concern_does_not_count() -> None:
    stream = SharedStream(60.0)
    begin(stream, 1, "a", "prompts/get")
    give_up(stream, 1)
    other = begin(stream, 2, "b")
    _, found = stream.candidates(lambda message: bytes(message["method"]) == b'"tools/call"')
    assert found is not None
    assert found.scope is other


async def test_what_was_given_up_is_forgotten_in_time_and_in_number() -> None:
    stream = SharedStream(0.0)
    begin(stream, 1, "a")
    give_up(stream, 1)
    other = begin(stream, 2, "b")
    await asyncio.sleep(0)
    assert owner(stream) is other
    long = SharedStream(3600.0)
    for number in range(MAX_GIVEN_UP + 50):
        begin(long, number, "a")
        give_up(long, number)
    begin(long, -1, "b")
    assert owner(long) is None
    for number in range(50, MAX_GIVEN_UP + 50):
        long.answered(number)
    assert owner(long) is not None


def logged(answer: Answer) -> list[str]:
    return [each["params"]["data"] for each in answer.notifications if each["method"] == "notifications/message"]


async def work(client: Client, token: str, delay: float, **request: Any) -> Answer:
    arguments = {"token": token, "delay": delay, "log": True}
    return await client.request("tools/call", {"name": "one_work", "arguments": arguments}, **request)


async def test_what_a_cancelled_call_still_says_reaches_no_other_client(proxy: RunningProxy) -> None:
    command = (sys.executable, "-m", "tests.soak.stdio_backend", "one")
    await proxy.apply(stdio("one", *command, session="Shared", env={"PYTHONPATH": str(ROOT)}))
    await proxy.until_ready("one")
    first, second = await proxy.client(listening=True), await proxy.client(listening=True)
    assert logged(await work(first, "first.0", 0)) == ["first.0"]
    cancelled = asyncio.create_task(work(first, "first.1", 1.0, request_id=77))
    await proxy.until(lambda: proxy.report("one").in_flight == 1)
    await first.notify("notifications/cancelled", {"requestId": 77})
    await cancelled
    answer = await work(second, "second.1", 2.5)
    assert logged(answer) == ["second.1"], "by then the backend was done with the other call"
    assert second.heard_of("notifications/message") == []
