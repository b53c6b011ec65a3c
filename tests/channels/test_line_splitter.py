"""Lines from chunks."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from mcp_connections.proxy.channels.line_splitter import LineSplitter, OversizedLine

LIMIT = 20


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    cuts=st.lists(st.integers(0, 300), max_size=20),
    last=st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")),
)
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], cuts: list[int], last: bytes) -> None:
    data = b"".join(line + b"\n" for line in lines) + last
    splitter = LineSplitter(LIMIT)

    found = [line for chunk in chunked(data, cuts) for line in splitter.feed(chunk)] + splitter.end()

    expected = [*lines, *([last] if last else [])]
    assert len(found) == len(expected)
    for line, whole in zip(found, expected, strict=True):
        if isinstance(line, OversizedLine):
            assert line.size == len(whole) > LIMIT
            assert whole.startswith(line.head)
            assert len(line.head) >= LIMIT
            assert whole.endswith(line.tail)
            assert line.tail
        else:
            assert line == whole
            assert len(line) <= LIMIT


def test_of_an_oversized_line_both_ends_are_kept() -> None:
    splitter = LineSplitter(100_000)
    found = []
    for chunk in chunked(b"head" + b"x" * 10_000_000 + b"tail\nnext\n", list(range(0, 10_000_000, 65_536))):
        found += splitter.feed(chunk)

    oversized, following = found
    assert isinstance(oversized, OversizedLine)
    assert oversized.size == 10_000_008
    assert oversized.head.startswith(b"head")
    assert oversized.tail.endswith(b"tail")
    assert len(oversized.head) + len(oversized.tail) < 10_000
    assert following == b"next"


def test_a_line_costs_what_its_length_says() -> None:
    # In 32,768 chunks, a copy of the whole line a chunk would move 137 GB.
    splitter = LineSplitter(16 * 1024 * 1024)
    before = time.process_time()
    for _ in range(32 * 1024):
        assert splitter.feed(b"x" * 256) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 8 * 1024 * 1024
    assert time.process_time() - before < 5.0
