"""With an OpenTelemetry SDK in the process relayed requests are spans: a real ``serve``, whose spans go to a file."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.backends.scripted import ScriptedBackend
from tests.cli.conftest import Running, start_command
from tests.proxy.client import Client
from tests.telemetry.manifests import connection

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# What opentelemetry-instrument does for a user, for one exporter: set the provider before the program starts.
SET_UP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
spans = open({path!r}, "a", buffering=1)
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans)))
trace.set_tracer_provider(provider)
"""


class Traced:
    """A ``serve`` that records spans."""

    def __init__(self, serve: Running, client: Client, spans: Path) -> None:
        self.client = client
        self._serve = serve
        self._spans = spans

    async def ended(self) -> list[dict[str, Any]]:
        """All spans, once the process has ended."""
        await self.client.aclose()
        await self._serve.end()
        decoder, text, spans = json.JSONDecoder(), self._spans.read_text().lstrip(), []
        while text:
            span, end = decoder.raw_decode(text)
            spans.append(span)
            text = text[end:].lstrip()
        return spans


@pytest.fixture
async def traced(tmp_path: Path, backend: ScriptedBackend) -> AsyncIterator[Traced]:
    site, spans, folder = tmp_path / "site", tmp_path / "spans", tmp_path / "manifests"
    site.mkdir()
    spans.touch()
    folder.mkdir()
    (site / "sitecustomize.py").write_text(SET_UP.format(path=str(spans)))
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    (folder / "one.json").write_text(connection("one", backend.url))
    async with start_command("serve", folder, "--port", "0", env={"PYTHONPATH": path}) as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/one")
        async with aiohttp.ClientSession() as http:
            client = Client(http, url)
            await client.initialize()
            yield Traced(serve, client, spans)


async def test_a_call_is_a_span_in_the_client_s_trace(traced: Traced, backend: ScriptedBackend) -> None:
    arguments = {"password": "hunter2"}
    params = {"name": "one_echo", "arguments": arguments, "_meta": {"traceparent": PARENT, "tracestate": "vendor=1"}}
    await traced.client.request("tools/call", params)
    seen = backend.calls_of("echo")[-1]
    (span,) = await traced.ended()
    assert span["name"] == "tools/call echo"
    assert span["kind"] == "SpanKind.SERVER"
    assert span["context"]["trace_id"] == "0x4bf92f3577b34da6a3ce929d0e0e4736"
    assert span["parent_id"] == "0x00f067aa0ba902b7"
    assert span["status"]["status_code"] == "UNSET"
    assert span["attributes"] == {
        "mcp.method.name": "tools/call",
        "mcp_connections.connection": "default/one",
        "gen_ai.tool.name": "echo",
    }
    assert "hunter2" not in json.dumps(span)
    # The backend's parent is this span, wherever it looks.
    child = f"00-4bf92f3577b34da6a3ce929d0e0e4736-{span['context']['span_id'].removeprefix('0x')}-01"
    assert seen.headers["traceparent"] == child
    assert seen.message["params"]["_meta"] == {"traceparent": child, "tracestate": "vendor=1"}
    assert seen.message["params"]["arguments"] == arguments


async def test_a_call_without_a_trace_begins_one(traced: Traced, backend: ScriptedBackend) -> None:
    await traced.client.request("resources/read", {"uri": "x:nothing"})
    await traced.client.call("one_echo")
    (span,) = await traced.ended()
    assert span["parent_id"] is None
    trace_id = span["context"]["trace_id"].removeprefix("0x")
    assert backend.calls_of("echo")[-1].headers["traceparent"].split("-")[1] == trace_id


async def test_a_failed_call_says_why(traced: Traced, backend: ScriptedBackend) -> None:
    await traced.client.call("one_echo")
    await backend.stop()
    assert (await traced.client.call("one_echo")).error["data"]["reason"] == "Unreachable"
    good, bad = await traced.ended()
    assert good["status"]["status_code"] == "UNSET"
    assert bad["status"]["status_code"] == "ERROR"
    assert bad["attributes"]["error.type"] == "Unreachable"
