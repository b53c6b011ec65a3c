"""What a backend says of a credential it was given ends in no log, no status and no client."""

from __future__ import annotations

import json
import logging

import pytest

from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

TOKEN = "s3cret-token-of-the-backend"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


def rpc_error(seen: Seen) -> HttpAnswer:
    error = {"code": -32000, "message": f"not for {seen.headers['authorization']}"}
    return HttpAnswer(200, json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "error": error}).encode())


def answer(how: str, seen: Seen) -> HttpAnswer | None:
    """What is wrong with the backend, by name."""
    token = seen.headers["authorization"]
    match how:
        case "status 400" | "status 500":
            return HttpAnswer(int(how[7:]), f"cannot use {token} here".encode())
        case "redirect":
            return HttpAnswer(302, headers={"location": f"http://127.0.0.1/login/{TOKEN}?for={token}"})
        case "content type":
            return HttpAnswer(200, b"hello", {"content-type": f"text/{token}"})
        case "initialize" | "tools/list" if seen.rpc == how:
            return rpc_error(seen)
    return None


@pytest.mark.parametrize("how", ["status 400", "status 500", "redirect", "content type", "initialize", "tools/list"])
async def test_a_backend_that_repeats_its_credential_is_quoted_without_it(
    proxy: RunningProxy, backend: ScriptedBackend, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async def intercept(seen: Seen) -> HttpAnswer | None:
        return answer(how, seen)

    caplog.set_level(logging.DEBUG)
    backend.intercept = intercept
    await proxy.apply(http("one", backend.url, headers=HEADERS))
    client = await proxy.client()
    called = await client.call("one_echo")
    report = proxy.report("one").model_dump_json()
    assert not proxy.report("one").ready
    assert "[redacted]" in report
    for text in (report, caplog.text, called.body.decode()):
        assert TOKEN not in text


async def test_a_malformed_item_is_reported_without_it(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.add_item("tools", {"title": f"no name, but {TOKEN}"})
    await proxy.apply(http("one", backend.url, headers=HEADERS))
    await proxy.until_ready("one")
    (note,) = proxy.report("one").catalog.skipped
    assert note.name == '{"title": "no name, but [redacted]"}'
