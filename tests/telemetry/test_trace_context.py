"""A client's trace goes on in the backend, whoever records it, and nothing else becomes a header."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.backends.scripted import ScriptedBackend, Seen
from tests.clients.stateless_client import StatelessClient
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"
STATE = "vendor=value"


async def called(
    proxy: RunningProxy, backend: ScriptedBackend, meta: dict[str, Any] | None, headers: dict[str, str] | None = None
) -> Seen:
    """What the backend saw of a call."""
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    params = {"name": "one_echo", "arguments": {}} | ({"_meta": meta} if meta is not None else {})
    await client.request("tools/call", params, **(headers or {}))
    return backend.calls_of("echo")[-1]


def meta_of(seen: Seen) -> dict[str, Any] | None:
    meta: dict[str, Any] | None = seen.message["params"].get("_meta")
    return meta


async def test_what_meta_says_goes_on_as_it_is_and_into_the_headers(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    given = {"traceparent": PARENT, "tracestate": STATE, "baggage": "k=v", "com.example/x": [1]}
    seen = await called(proxy, backend, given)
    assert meta_of(seen) == given
    assert (seen.headers["traceparent"], seen.headers["tracestate"]) == (PARENT, STATE)
    assert "baggage" not in seen.headers


async def test_headers_of_the_client_go_on_both_ways(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    seen = await called(proxy, backend, None, {"traceparent": PARENT, "tracestate": STATE})
    assert seen.headers["traceparent"] == PARENT
    assert meta_of(seen) == {"traceparent": PARENT, "tracestate": STATE}


async def test_meta_outranks_the_headers(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    seen = await called(proxy, backend, {"traceparent": PARENT}, {"traceparent": OTHER})
    assert seen.headers["traceparent"] == PARENT
    assert meta_of(seen) == {"traceparent": PARENT}


@pytest.mark.parametrize(
    "value", ["", "no such thing", PARENT + "\r\nx-evil: 1", f"00-{'0' * 32}-00f067aa0ba902b7-01", 7, None, {"a": 1}]
)
async def test_what_is_no_trace_context_is_only_carried(
    proxy: RunningProxy, backend: ScriptedBackend, value: Any
) -> None:
    seen = await called(proxy, backend, {"traceparent": value})
    assert meta_of(seen) == {"traceparent": value}
    assert not {"traceparent", "tracestate", "x-evil"} & seen.headers.keys()


@pytest.mark.parametrize(
    "state", ["é=1", "a=b\r\nx-evil: 1", "k=" + "v" * 5000, ",".join(f"k{n}=v" for n in range(99))]
)
async def test_a_state_that_cannot_be_read_is_left_out_of_headers_and_logs(
    proxy: RunningProxy, backend: ScriptedBackend, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    seen = await called(proxy, backend, {"traceparent": PARENT, "tracestate": state})
    assert seen.headers["traceparent"] == PARENT
    assert meta_of(seen) == {"traceparent": PARENT, "tracestate": state}
    assert not {"tracestate", "x-evil"} & seen.headers.keys()
    assert caplog.records == []


@pytest.mark.parametrize("meta", [None, 5, "traceparent", ["traceparent"]])
async def test_a_meta_that_is_no_object_is_carried_too(
    proxy: RunningProxy, backend: ScriptedBackend, meta: Any
) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    params = {"name": "one_echo", "arguments": {"traceparent": PARENT}, "_meta": meta}
    answer = await client.request("tools/call", params, traceparent=PARENT)
    assert "result" in answer.response, answer.response
    assert backend.calls_of("echo")[-1].message["params"] == {**params, "name": "echo"}


async def test_without_a_trace_nothing_is_added(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    seen = await called(proxy, backend, None)
    assert meta_of(seen) is None
    assert "traceparent" not in seen.headers


async def test_one_request_s_trace_is_not_that_of_the_next(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await called(proxy, backend, {"traceparent": PARENT})
    client = await proxy.client()
    for _ in range(3):
        assert (await client.call("one_echo")).status == 200
        assert "traceparent" not in backend.calls_of("echo")[-1].headers
    listed = [seen.headers for seen in backend.requests if seen.rpc == "tools/list"]
    assert all("traceparent" not in headers for headers in listed)


async def test_a_stateless_client_s_trace_goes_on_too(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = StatelessClient(proxy.http, proxy.url)
    meta = client.meta(traceparent=PARENT)
    await client.request("tools/call", {"name": "one_echo", "arguments": {}}, meta=meta)
    seen = backend.calls_of("echo")[-1]
    assert seen.headers["traceparent"] == PARENT
    assert (meta_of(seen) or {})["traceparent"] == PARENT


async def test_pipelined_requests_keep_their_traces_apart(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    bodies = [b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"one_%s"}}' % each for each in CALLS]
    lines = "".join(f"{name}: {value}\r\n" for name, value in client.headers(host="localhost").items()).encode()
    heads = [b"POST /mcp HTTP/1.1\r\n" + lines + b"content-length: %d\r\n" % len(body) for body in bodies]
    traced, plain = heads[0] + b"traceparent: " + PARENT.encode() + b"\r\n\r\n", heads[1] + b"\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.server.port)
    writer.write(traced + bodies[0] + plain + bodies[1])
    async with asyncio.timeout(20):
        for _ in CALLS:
            await reader.readuntil(b"}}")
    writer.close()
    assert backend.calls_of("echo")[-1].headers["traceparent"] == PARENT
    assert "traceparent" not in backend.calls_of("bump")[-1].headers
    assert meta_of(backend.calls_of("bump")[-1]) is None


CALLS = ((7, b"echo"), (8, b"bump"))


async def test_what_the_proxy_does_for_itself_is_of_no_client_s_trace(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    """The first traced call opens the client's session, whose later requests are others' business."""
    await called(proxy, backend, {"traceparent": PARENT})
    traced = [seen.rpc or seen.method for seen in backend.requests if "traceparent" in seen.headers]
    assert traced == ["tools/call"]


async def test_a_state_without_a_parent_hides_no_header(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    seen = await called(proxy, backend, {"tracestate": STATE}, {"traceparent": OTHER})
    assert seen.headers["traceparent"] == OTHER
