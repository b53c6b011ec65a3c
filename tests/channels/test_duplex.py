"""What all duplex channels share, on the smallest of them: one whose peer is the test itself."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from mcp_connections.proxy.channels import duplex
from mcp_connections.proxy.channels.channel import ChannelError, ProtocolViolation, TimedOut, Unreachable
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.wire.jsonrpc import Envelope
from tests.channels.wire import Session, ask, ignore, request, result_of


class Loopback(duplex.DuplexChannel):
    """Keeps what was sent; the test answers."""

    def __init__(self, connect_timeout: float = 20.0) -> None:
        super().__init__(
            connection="team/tools",
            place="loopback",
            connect_timeout=connect_timeout,
            message_limit=1000,
            redactor=Redactor(["s3cret-s3cret"]),
        )
        self.sent: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.disconnects = 0
        self.refuse: ChannelError | None = None

    async def _connect(self) -> None:
        await self.gate.wait()
        if self.refuse is not None:
            raise self.refuse

    async def _transmit(self, body: bytes) -> None:
        self.sent.append(body)

    async def _disconnect(self) -> None:
        self.disconnects += 1

    def say(self, message: Any) -> None:
        self.receive(message if isinstance(message, bytes) else json.dumps(message).encode())

    def answer(self, request_id: Any, result: Any = None) -> None:
        self.say({"jsonrpc": "2.0", "id": request_id, "result": result or {}})


async def opened() -> tuple[Loopback, Session]:
    channel = Loopback()
    session = Session(channel)
    await channel.open()
    return channel, session


def start(channel: Loopback, request_id: int) -> asyncio.Task[Envelope]:
    return asyncio.create_task(channel.exchange(request_id, request(request_id), ignore))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_answers_find_their_exchange_in_any_order() -> None:
    channel, _ = await opened()
    first, second = start(channel, 1), start(channel, 2)
    await settle()
    assert channel.sent == [request(1), request(2)]
    channel.answer(2, {"n": 2})
    channel.answer(1, {"n": 1})
    assert result_of(await first) == {"n": 1}
    assert result_of(await second) == {"n": 2}


async def test_members_that_are_only_carried_stay_as_they_are() -> None:
    channel, _ = await opened()
    exchange = start(channel, 1)
    await settle()
    result = b'{"n": 123456789012345678901234567890, "x":1.50,\t"t":"\xc3\xa9 \\u00e9"}'
    channel.say(b'{"jsonrpc":"2.0","id":1,"result":' + result + b',"odd":[1, 2]}')
    message = await exchange
    assert bytes(message["result"]) == result
    assert bytes(message["odd"]) == b"[1, 2]"


@pytest.mark.parametrize("spelling", [b"7", b'"7"', b"7.0"])
async def test_other_spellings_of_the_id_are_understood(spelling: bytes) -> None:
    channel, _ = await opened()
    exchange = start(channel, 7)
    await settle()
    channel.say(b'{"jsonrpc":"2.0","id":' + spelling + b',"result":{}}')
    await exchange


async def test_an_answer_nobody_waits_for_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    with caplog.at_level(logging.DEBUG):
        for unknown in (2, True, None, "x", "1x", [1], {"a": 1}):
            channel.answer(unknown)
        channel.say(b'{"jsonrpc":"2.0","result":{}}')
    await settle()
    assert not exchange.done()
    assert not session.messages
    assert len([record for record in caplog.records if "not waited for" in record.message]) == 8
    channel.answer(1)
    await exchange
    channel.answer(1)
    assert channel.skipped == 0


async def test_requests_and_notifications_of_the_backend_go_to_the_session() -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    channel.say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}})
    channel.say({"jsonrpc": "2.0", "method": "notifications/progress"})
    await settle()
    assert [message["method"] for message in session.messages] == ["sampling/createMessage", "notifications/progress"]
    assert not exchange.done()
    channel.answer(1)
    await exchange


async def test_a_handler_that_fails_costs_one_message(caplog: pytest.LogCaptureFixture) -> None:
    channel, _ = await opened()

    def fail(_: Envelope) -> None:
        raise RuntimeError("broken handler")

    channel.on_message = fail
    channel.say({"jsonrpc": "2.0", "method": "x"})
    assert "broken handler" in caplog.text
    caplog.clear()
    exchange = start(channel, 1)
    await settle()
    channel.answer(1)
    await exchange


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"   ",
        b"Server version: 1.0",
        b"[1,2]",
        b'[{"jsonrpc":"2.0","method":"x"}]',
        b'{"level":"info","msg":"hi"}',
        b'{"method":"GET","path":"/"}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":',
        b"\xff\xfe",
        b'{"\xff":1}',
        b"null",
        b"{" * 100_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
async def test_junk_is_skipped_and_counted(junk: bytes, caplog: pytest.LogCaptureFixture) -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    channel.say(junk)
    assert channel.skipped == 1
    assert "connection team/tools" in caplog.text
    assert not session.messages
    channel.answer(1)
    await exchange


async def test_a_flood_of_junk_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    channel, _ = await opened()
    for _ in range(1000):
        channel.say(b"progress 50% s3cret-s3cret")
    assert channel.skipped == 1000
    assert 1 <= len(caplog.records) <= 6
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("result", [b"NaN", b'"\\ud8 cut in half"', b"[1,]"])
async def test_an_answer_that_is_not_json_fails_its_exchange_at_once(result: bytes) -> None:
    channel, _ = await opened()
    exchange, other = start(channel, 1), start(channel, 2)
    await settle()
    channel.say(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}")
    with pytest.raises(ProtocolViolation, match=r"connection team/tools.*not valid JSON") as caught:
        await exchange
    assert caught.value.executed
    channel.answer(2)
    await other


async def test_the_number_of_waiting_exchanges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplex, "MAX_PENDING", 3)
    channel, _ = await opened()
    waiting = [start(channel, number) for number in (1, 2, 3)]
    await settle()
    with pytest.raises(Unreachable, match="3 requests are waiting") as caught:
        await ask(channel, 4)
    assert not caught.value.executed
    assert len(channel.sent) == 3
    channel.answer(1)
    await waiting[0]
    fifth = start(channel, 5)
    await settle()
    for number in (2, 3, 5):
        channel.answer(number)
    await asyncio.gather(*waiting, fifth)


async def test_a_request_id_is_not_used_twice_at_a_time() -> None:
    channel, _ = await opened()
    exchange = start(channel, 1)
    await settle()
    with pytest.raises(ValueError, match="id 1 is in use"):
        await ask(channel, 1)
    channel.answer(1)
    await exchange


async def test_a_loss_fails_everything_that_waits_and_is_told_once() -> None:
    channel, session = await opened()
    exchanges = [start(channel, number) for number in (1, 2, 3)]
    await settle()
    failed_by_then: list[bool] = []

    def lost(fault: ChannelError) -> None:
        failed_by_then.extend(answer.done() for answer in channel._pending.values())  # noqa: SLF001
        session.lost(fault)

    channel.on_lost = lost
    channel.lose(TimedOut("gone"))
    assert failed_by_then == [True] * 3
    channel.lose(Unreachable("gone again"))

    results = await asyncio.gather(*exchanges, return_exceptions=True)
    assert [(type(fault), str(fault), fault.executed) for fault in results if isinstance(fault, ChannelError)] == [
        (TimedOut, "gone", True)
    ] * 3
    assert [str(fault) for fault in session.losses] == ["gone"]
    for attempt in (channel.exchange(4, request(4), ignore), channel.send(b"{}"), channel.open()):
        with pytest.raises(TimedOut, match="gone") as caught:
            await attempt
        assert not caught.value.executed
    await channel.aclose()
    assert channel.disconnects == 1
    assert session.losses[0].executed


async def test_closing_fails_what_waits_and_is_no_loss() -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    await asyncio.gather(channel.aclose(), channel.aclose())
    await channel.aclose()
    with pytest.raises(Unreachable, match="closed") as caught:
        await exchange
    assert caught.value.executed
    with pytest.raises(Unreachable, match="closed") as caught:
        await ask(channel, 2)
    assert not caught.value.executed
    channel.lose(Unreachable("late"))
    channel.say({"jsonrpc": "2.0", "method": "late"})
    assert channel.disconnects == 1
    assert not session.losses
    assert not session.messages


async def test_a_channel_that_was_never_opened_closes_and_refuses() -> None:
    channel = Loopback()
    with pytest.raises(Unreachable, match="not open"):
        await ask(channel, 1)
    await channel.aclose()
    with pytest.raises(Unreachable, match="closed"):
        await channel.open()


async def test_opening_is_bounded_in_time() -> None:
    channel = Loopback(connect_timeout=0.05)
    channel.gate.clear()
    with pytest.raises(TimedOut, match=r"connection team/tools: loopback: not ready within 0.05 s") as caught:
        await channel.open()
    assert not caught.value.executed
    assert channel.disconnects == 1


async def test_a_failed_attempt_releases_everything() -> None:
    channel = Loopback()
    channel.refuse = Unreachable("refused")
    with pytest.raises(Unreachable, match="refused"):
        await channel.open()
    assert channel.disconnects == 1
    await channel.aclose()
    assert channel.disconnects == 1


async def test_an_attempt_that_is_cancelled_releases_everything() -> None:
    channel = Loopback()
    channel.gate.clear()
    opening = asyncio.create_task(channel.open())
    await settle()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await channel.aclose()
    assert channel.disconnects == 1


async def test_closing_ends_an_attempt_at_once() -> None:
    channel = Loopback()
    channel.gate.clear()
    opening = asyncio.create_task(channel.open())
    await settle()
    await channel.aclose()
    with pytest.raises(Unreachable, match="closed"):
        await opening
    assert channel.disconnects == 1


async def test_an_exchange_that_is_cancelled_is_forgotten() -> None:
    channel, session = await opened()
    exchange, other = start(channel, 1), start(channel, 2)
    await settle()
    exchange.cancel()
    await settle()
    assert exchange.cancelled()
    channel.answer(1)
    channel.answer(2)
    await other
    again = start(channel, 1)
    await settle()
    channel.answer(1)
    await again
    assert not session.losses


@pytest.mark.parametrize("first", ["answer", "cancel"])
async def test_an_answer_and_a_cancellation_in_the_same_moment(first: str) -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    for step in ["answer", "cancel"] if first == "answer" else ["cancel", "answer"]:
        if step == "answer":
            channel.answer(1)
        else:
            exchange.cancel()
    await asyncio.wait({exchange})
    assert exchange.cancelled()
    assert not channel._pending  # noqa: SLF001
    assert not session.losses


@pytest.mark.parametrize("first", ["answer", "loss"])
async def test_an_answer_and_a_loss_in_the_same_moment(first: str) -> None:
    channel, session = await opened()
    exchange = start(channel, 1)
    await settle()
    if first == "answer":
        channel.answer(1, {"n": 1})
        channel.lose(Unreachable("gone"))
        assert result_of(await exchange) == {"n": 1}
    else:
        channel.lose(Unreachable("gone"))
        channel.answer(1, {"n": 1})
        with pytest.raises(Unreachable, match="gone"):
            await exchange
    assert len(session.losses) == 1


async def test_a_close_whose_caller_is_cancelled_goes_on() -> None:
    class Slow(Loopback):
        release = asyncio.Event()

        async def _disconnect(self) -> None:
            await self.release.wait()
            await super()._disconnect()

    channel = Slow()
    await channel.open()
    closing = asyncio.create_task(channel.aclose())
    await settle()
    closing.cancel()
    await settle()
    assert closing.cancelled()
    again = asyncio.create_task(channel.aclose())
    await settle()
    assert not again.done()
    channel.release.set()
    await again
    assert channel.disconnects == 1
