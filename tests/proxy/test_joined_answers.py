"""Backends that answer a request with several messages in one body that is no event stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, text
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "half\u2028way"}}


def joined(*messages: Any) -> dict[str, bytes]:
    texts = [json.dumps(message, ensure_ascii=False).encode() for message in messages]
    return {
        "an array": b"[%s]" % b",".join(texts),
        "lines": b"\n".join(texts),
        "ended lines": b"\r\n\r\n".join((*texts, b"")),
    }


@pytest.mark.parametrize("form", joined())
async def test_the_answer_is_found_among_the_messages(proxy: RunningProxy, backend: ScriptedBackend, form: str) -> None:
    async def intercept(seen: Seen) -> HttpAnswer | None:
        if seen.rpc != "tools/call":
            return None
        answer = {"jsonrpc": "2.0", "id": seen.message["id"], "result": text("done")}
        return HttpAnswer(200, joined(LOG, answer)[form], {"content-type": "application/json"})

    backend.intercept = intercept
    await proxy.apply(http("one", backend.url))
    answer = await (await proxy.client()).call("one_bump")
    assert answer.text == "done"
    assert answer.notifications == [LOG]


@pytest.mark.parametrize("body", [b"<html>\n</html>", b'{"jsonrpc":"2.0"}\nnot JSON', b"[1]", b'{"a":1,\n"b":'])
async def test_what_is_no_messages_is_said_to_be_none(
    proxy: RunningProxy, backend: ScriptedBackend, body: bytes
) -> None:
    async def intercept(seen: Seen) -> HttpAnswer | None:
        return HttpAnswer(200, body, {"content-type": "text/html"}) if seen.rpc == "tools/call" else None

    backend.intercept = intercept
    await proxy.apply(http("one", backend.url))
    error = (await (await proxy.client()).call("one_bump")).error
    assert "answered HTTP 200 with text/html that is no JSON-RPC message" in error["message"]
