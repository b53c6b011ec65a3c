"""Server-sent events: parsed as the standard says, however the bytes are cut into chunks."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.proxy.wire.event_stream import EventStreamParser, EventTooLarge, ServerSentEvent, encode_event
from tests.proxy.json_texts import json_texts

PIECES = st.sampled_from(
    [
        b"data",
        b"data:",
        b"data: ",
        b"data:  two",
        b"event:",
        b"event: message",
        b"event: other",
        b"id",
        b"id: 7",
        b"id: a\0b",
        b"id: \xc3\xa9",
        b"retry: 10",
        b"retry: -1",
        b"retry: 1.5",
        b"retry:",
        b"unknown: field",
        b": comment",
        b":",
        b" data: indented",
        b"{}",
        b"\xef\xbb\xbf",
        b"\xff",
        b"x",
        b" ",
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b""])
bodies = st.lists(st.tuples(PIECES, LINE_ENDS).map(b"".join), max_size=25).map(b"".join)


def by_the_standard(body: bytes) -> list[ServerSentEvent]:
    """WHATWG HTML, 9.2.6, on a whole body; besides, an event with only an id or a retry counts."""
    events: list[ServerSentEvent] = []
    lines = re.split(rb"\r\n|\r|\n", body)[:-1]  # an unfinished last line is no line
    if lines and lines[0]:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line:
            name, _, value = line.partition(b":")
            fields.append((name, value.removeprefix(b" ")))
            continue
        data = [value for name, value in fields if name == b"data"]
        kinds = [value for name, value in fields if name == b"event"]
        ids = [value for name, value in fields if name == b"id" and b"\0" not in value]
        retries = [value for name, value in fields if name == b"retry" and re.fullmatch(rb"[0-9]+", value)]
        fields = []
        if data or ids or retries:
            kind = kinds[-1].decode("utf-8", "replace") if kinds and kinds[-1] else "message"
            last_id = ids[-1].decode("utf-8", "replace") if ids else None
            events.append(ServerSentEvent(kind, b"\n".join(data), last_id, int(retries[-1]) if retries else None))
    return events


def parsed(chunks: list[bytes], limit: int = 1 << 20) -> list[ServerSentEvent]:
    parser = EventStreamParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@st.composite
def cut(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> list[bytes]:
    """A body in chunks."""
    body = draw(whole)
    marks = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[start:end] for start, end in zip([0, *marks], [*marks, len(body)], strict=True)]


@given(chunks=cut(bodies))
def test_any_body_in_any_chunks_gives_the_events_of_the_standard(chunks: list[bytes]) -> None:
    assert parsed(chunks) == by_the_standard(b"".join(chunks))


@given(body=bodies)
def test_byte_by_byte_gives_the_same_events(body: bytes) -> None:
    assert parsed([bytes([byte]) for byte in body]) == by_the_standard(body)


@settings(max_examples=40, deadline=None)
@given(messages=st.lists(json_texts(" \t\r\n"), max_size=3), size=st.integers(1, 7))
def test_what_is_encoded_here_is_decoded_to_the_same_json(messages: list[str], size: int) -> None:
    body = b"".join(encode_event(message.encode()) for message in messages)
    events = parsed([body[start : start + size] for start in range(0, len(body), size)])
    assert [event.event for event in events] == ["message"] * len(messages)
    for event, message in zip(events, messages, strict=True):
        assert json.loads(event.data, parse_float=str, parse_int=str) == json.loads(
            message, parse_float=str, parse_int=str
        )
        assert b"\n" not in event.data


def test_an_encoded_message_without_line_breaks_is_not_touched() -> None:
    message = b'{"a" : 1.0,\t"b":"\\n\xc3\xa9"}'
    assert parsed([encode_event(message)]) == [ServerSentEvent("message", message, None, None)]


@pytest.mark.parametrize("size", [1, 3, 100, 10_000])
def test_an_event_over_the_limit_is_refused(size: int) -> None:
    body = b"data: " + b"x" * 5000 + b"\n\n"
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert len(parsed(chunks, limit=6000)[0].data) == 5000
    with pytest.raises(EventTooLarge):
        parsed([body[start : start + size] for start in range(0, len(body) - 2, size)], limit=4000)


@pytest.mark.parametrize("line", [b"data: 0123456789\n", b"data:\n", b"data\n"])
def test_an_event_of_many_lines_is_bounded_too(line: bytes) -> None:
    with pytest.raises(EventTooLarge):
        parsed([line * 100] * 100, limit=9000)


def test_the_limit_is_one_of_an_event_not_of_the_stream() -> None:
    events = parsed([b"data: " + b"x" * 500 + b"\n\n"] * 100, limit=1000)
    assert len(events) == 100


def test_a_retry_of_absurd_length_is_ignored() -> None:
    (event,) = parsed([b"retry: " + b"9" * 5000 + b"\ndata: x\n\n"])
    assert event.data == b"x"
    assert event.retry is None


def test_a_large_event_in_many_chunks_costs_no_more_than_its_bytes() -> None:
    parser = EventStreamParser()
    chunk = b"x" * 1024
    fed = [b"data: ", *[chunk] * 3072, b"\n\n"]
    events = [event for each in fed for event in parser.feed(each)]
    assert [len(event.data) for event in events] == [3 * 1024 * 1024]
