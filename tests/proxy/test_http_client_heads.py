"""Heads and trailers of backends: bounded, and kept apart."""

from __future__ import annotations

import pytest

from mcp_connections.proxy.channels.http_client import MAX_HEAD_BYTES, HttpFault
from tests.backends.raw_server import Connection
from tests.proxy.test_http_client import GET, always, talking_to

LINE = b"x: " + b"y" * 1000 + b"\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n"


@pytest.mark.parametrize(
    ("start", "filler"),
    [
        (b"HTTP/1.1 200 OK\r\n", LINE),
        (b"HTTP/1.1 200 OK\r\nx: ", b"y" * 1000),
        (b"HTTP/1.1 200 ", b"O" * 1000),
        (CHUNKED + b"0\r\n", LINE),
        (CHUNKED + b"1;x=", b"y" * 1000),
    ],
    ids=["headers", "one header", "reason", "trailers", "chunk extension"],
)
async def test_what_never_ends_is_cut_off(start: bytes, filler: bytes) -> None:
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(start)
        while sent < 100 * MAX_HEAD_BYTES:
            await connection.send(filler)
            sent += len(filler)

    async with talking_to(script) as (client, _):
        with pytest.raises(HttpFault, match=f"larger than {MAX_HEAD_BYTES} bytes") as caught:
            await client.request(GET)
    assert caught.value.executed
    assert sent < 100 * MAX_HEAD_BYTES


async def test_a_body_in_tiny_chunks_is_no_head() -> None:
    chunks = b"1\r\n.\r\n" * 200_000
    async with talking_to(always(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunks, b"0\r\n\r\n")) as (
        client,
        _,
    ):
        assert len((await client.request(GET)).body) == 200_000


async def test_trailers_are_no_headers() -> None:
    async with talking_to(always(CHUNKED + b"0\r\nmcp-session-id: late\r\n\r\n")) as (client, server):
        for _ in range(2):
            response = await client.request(GET)
            assert response.body == b"ok"
            assert response.header(b"mcp-session-id") == ""
        assert server.accepted == 1
