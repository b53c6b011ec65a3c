r"""Half an emoji, as a JavaScript server sends it that cut a text in two: valid JSON (RFC 8259, section 8.2) that some
readers refuse. It must cost neither its message nor its neighbours in a list."""

from __future__ import annotations

import pytest

from tests.golden.relayed import PAIRS, Golden, Pair
from tests.golden.server import Lists, Outcome

HALF = rb'"cut \ud83d here"'


@pytest.fixture
async def offered(golden: Golden) -> Golden:
    """Both servers have a tool whose description ends in half an emoji, and one whose name does."""
    tools = [
        b'{"name":"do","description":%s,"inputSchema":{"type":"object","x":1.10}}' % HALF,
        b'{"name":%s,"inputSchema":{"type":"object"}}' % HALF,
        b'{"name":"next","inputSchema":{"type":"object"}}',
    ]
    for era, server in golden.servers.items():
        server.lists = Lists({"tools": [tools]})
        extra = b',"resultType":"complete"' if era == "stateless" else b""
        server.outcomes["tools/call", "do"] = Outcome("result", b'{"content":[],"x":%s,"n":1e400%s}' % (HALF, extra))
    await golden.mount()
    return golden


@pytest.mark.parametrize("pair", PAIRS, ids=str)
async def test_half_an_emoji_is_passed_on(offered: Golden, pair: Pair) -> None:
    listed = (await offered.proxied(pair.client, "tools/list")).body
    item = b'{"name":"%s_do","description":%s,"inputSchema":{"type":"object","x":1.10}}'
    assert item % (pair.prefix.encode(), HALF) in listed
    assert b'"%s_next"' % pair.prefix.encode() in listed
    answer = await offered.proxied(pair.client, "tools/call", {"name": f"{pair.prefix}_do"})
    assert b'"x":%s,"n":1e400' % HALF in answer.body
    (note,) = offered.proxy.report(pair.prefix).catalog.skipped
    assert "cut" in note.name


@pytest.mark.parametrize("pair", PAIRS, ids=str)
async def test_half_an_emoji_reaches_the_backend(offered: Golden, pair: Pair) -> None:
    server = offered.servers[pair.backend]
    body = b'{"name":"%s_do","arguments":{"a":%s}}' % (pair.prefix.encode(), HALF)
    await offered.ask_raw(pair.client, "tools/call", body, f"{pair.prefix}_do")
    assert b'"arguments":{"a":%s}' % HALF in server.bodies[-1]
