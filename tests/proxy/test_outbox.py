"""What is kept for a client that does not read."""

from __future__ import annotations

import logging

import pytest

from mcp_connections.proxy.downstream import outbox
from mcp_connections.proxy.downstream.outbox import Outbox


def contents(box: Outbox) -> list[bytes | None]:
    return [box.get_nowait() for _ in range(box.qsize())]


def test_the_oldest_of_too_many_make_room() -> None:
    box = Outbox("this", 3)
    for number in range(10):
        box.push(b"%d" % number)
    box.push(None)
    assert contents(box) == [b"7", b"8", b"9", None]


def test_the_oldest_of_too_many_bytes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_BYTES", 100)
    box = Outbox("this", 1000)
    for number in range(100):
        box.push(b"%02d" % number + b"x" * 28)
    kept = contents(box)
    assert len(kept) == 4
    assert kept[-1] == b"99" + b"x" * 28
    box.push(b"y" * 30)
    assert contents(box) == [b"y" * 30], "what was taken out no longer counts"


def test_the_newest_is_kept_whatever_its_size_and_the_end_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_BYTES", 100)
    box = Outbox("this", 2)
    box.push(b"1")
    box.push(b"2")
    box.push(b"r" * 1000)
    box.push(None)
    assert contents(box) == [b"2", b"r" * 1000, None]


def test_a_flood_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    box = Outbox("its stream", 1)
    for _ in range(1000):
        box.push(b"x")
    assert len(caplog.records) == 1
    assert "its stream" in caplog.text
