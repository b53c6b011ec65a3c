"""Faults that users of such proxies reported in public, tried on a folder of manifests. Each test names its row in the
list of reports; the rows with a runnable backend have their own checks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fastmcp import Client as FastMcpClient

from tests.backends.scripted import ScriptedBackend, text
from tests.cli.conftest import PATIENCE, Running, manifest, start_command
from tests.proxy.client import Client
from tests.proxy.running import http_client

CHANGED = "notifications/tools/list_changed"
API = "mcp-connections.io/v1alpha1"


def connection(name: str, url: str, *, namespace: str | None = None, **spec: Any) -> str:
    """A manifest of an HTTP connection."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    transport = {"http": {"url": url, **spec.pop("http", {})}}
    return json.dumps(
        {"apiVersion": API, "kind": "McpConnection", "metadata": metadata, "spec": {"transport": transport, **spec}}
    )


def secret(name: str, **data: bytes) -> str:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    backend = ScriptedBackend()
    async with backend.serving():
        yield backend


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Running, Client]]:
    """``serve`` on a folder, and a client with a session."""
    async with start_command("serve", folder, "--port", "0") as serve, http_client() as http:
        client = Client(http, await serve.endpoint())
        async with asyncio.timeout(PATIENCE):
            while (await http.get(client.url.removesuffix("mcp") + "readyz")).status != 200:
                await asyncio.sleep(0.05)
        await client.initialize()
        try:
            yield serve, client
        finally:
            await client.aclose()


async def test_nam_06_a_derived_prefix_is_a_safe_token_and_unique(tmp_path: Path, backend: ScriptedBackend) -> None:
    names = ["github.com-prod.v2", "github-com-prod-v2", "x" * 253]
    for name in names:
        (tmp_path / f"{name[:40]}.yaml").write_text(connection(name, backend.url))
    async with served(tmp_path) as (_, client):
        tools = await client.names()
    assert len(tools) == len(set(tools)) == 6
    assert all(tool.replace("_", "").replace("-", "").isalnum() and len(tool) <= 64 for tool in tools)


async def test_nam_07_equal_names_in_two_namespaces_stay_apart(tmp_path: Path, backend: ScriptedBackend) -> None:
    (tmp_path / "a.yaml").write_text(connection("plain", backend.url, namespace="a", prefix="a"))
    (tmp_path / "b.yaml").write_text(connection("plain", backend.url, namespace="b", prefix="b"))
    async with served(tmp_path) as (_, client):
        assert [(await client.call(f"{prefix}_bump")).text for prefix in "aabb"] == ["1", "2", "1", "2"]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_trn_08_both_spellings_of_the_path_are_served_without_redirect(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as (_, client):
        for path in ("/mcp", "/mcp/"):
            url = client.url.removesuffix("/mcp") + path
            headers = client.headers(**{"x-forwarded-proto": "https", "mcp-session-id": "unknown"})
            async with client.http.request(method, url, headers=headers, data=b"{}", allow_redirects=False) as response:
                assert response.status in (400, 404)
                assert "location" not in response.headers


async def test_std_06_a_missing_command_harms_nobody_else(tmp_path: Path) -> None:
    plain = tmp_path / "not-executable"
    plain.write_text("#!/bin/sh\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.yaml").write_text(manifest("good", "one"))
    commands = {"missing": ["/no/such/bin"], "plain": [str(plain)], "ends": ["sh", "-c", "echo gone >&2; exit 127"]}
    for name, command in commands.items():
        document = json.loads(manifest(name))
        document["spec"]["transport"]["stdio"] = {"command": command}
        (folder / f"{name}.yaml").write_text(json.dumps(document))
    async with served(folder) as (_, client):
        assert await client.names() == ["good_one"]
        errors = {name: (await client.call(f"{name}_x")).error for name in commands}
    assert errors["missing"]["data"]["reason"] == errors["plain"]["data"]["reason"] == "CommandNotFound"
    assert "/no/such/bin" in errors["missing"]["message"]
    assert errors["ends"]["data"]["reason"] == "Exited"
    assert "127" in errors["ends"]["message"]
    assert "gone" in errors["ends"]["message"]


async def test_ntf_02_connected_clients_are_told_of_every_change(tmp_path: Path, backend: ScriptedBackend) -> None:
    async with served(tmp_path) as (_, client):
        await client.listen()
        (tmp_path / "two.yaml").write_text(connection("two", backend.url))
        await client.hear(CHANGED)
        assert await client.names() == ["two_echo", "two_bump"]
        (tmp_path / "two.yaml").write_text(connection("two", backend.url, prefix="three"))
        await client.hear(CHANGED, 2)
        assert await client.names() == ["three_echo", "three_bump"]
        (tmp_path / "two.yaml").unlink()
        await client.hear(CHANGED, 3)
        assert await client.names() == []
        assert (await client.call("three_echo")).error["code"] == -32602
        assert len(client.heard_of(CHANGED)) == 3


@pytest.mark.parametrize("value", [b"s3cret\n", b"s3cret\r\n", b"  s3cret  ", b"Bearer s3cret", b"bearer s3cret\n"])
async def test_aut_01_a_token_is_sent_as_it_is_meant(tmp_path: Path, backend: ScriptedBackend, value: bytes) -> None:
    (tmp_path / "token.yaml").write_text(secret("token", key=value))
    auth = {"bearer": {"secretKeyRef": {"name": "token", "key": "key"}}}
    (tmp_path / "one.yaml").write_text(connection("one", backend.url, auth=auth))
    async with served(tmp_path) as (_, client):
        assert await client.names() == ["one_echo", "one_bump"]
    assert {seen.headers["authorization"] for seen in backend.requests} == {"Bearer s3cret"}


@pytest.mark.parametrize("value", [b"a\nb", b"", b"\xff\xfe"])
async def test_aut_01_a_value_that_is_no_token_is_refused_and_not_shown(
    tmp_path: Path, backend: ScriptedBackend, value: bytes
) -> None:
    (tmp_path / "token.yaml").write_text(secret("token", key=value))
    auth = {"bearer": {"secretKeyRef": {"name": "token", "key": "key"}}}
    (tmp_path / "one.yaml").write_text(connection("one", backend.url, auth=auth))
    async with served(tmp_path) as (serve, client):
        assert await client.names() == []
        await serve.said("InvalidSecret")
    assert backend.requests == []


async def test_aut_02_a_rotated_secret_is_used_at_once(tmp_path: Path, backend: ScriptedBackend) -> None:
    (tmp_path / "token.yaml").write_text(secret("token", key=b"old"))
    auth = {"bearer": {"secretKeyRef": {"name": "token", "key": "key"}}}
    (tmp_path / "one.yaml").write_text(connection("one", backend.url, auth=auth))
    async with served(tmp_path) as (serve, client):
        await serve.said("ready")
        await serve.said_anew("replaced", lambda: (tmp_path / "token.yaml").write_text(secret("token", key=b"new")))
        assert (await client.call("one_echo", {"text": "x"})).status == 200
        assert backend.calls_of("echo")[-1].headers["authorization"] == "Bearer new"


async def test_k8s_03_a_backend_that_starts_later_needs_no_edit(tmp_path: Path, backend: ScriptedBackend) -> None:
    await backend.stop()
    (tmp_path / "late.yaml").write_text(connection("late", backend.url))
    async with served(tmp_path) as (_, client):
        await client.listen()
        assert await client.names() == []
        await backend.start()
        await client.hear("notifications/tools/list_changed")
        assert (await client.call("late_bump")).text == "1"


async def test_k8s_19_a_disabled_connection_is_left_alone(tmp_path: Path, backend: ScriptedBackend) -> None:
    (tmp_path / "off.yaml").write_text(connection("off", backend.url, enabled=False))
    async with served(tmp_path) as (serve, client):
        assert await client.names() == []
        await serve.said_anew("added|kept|mounted", lambda: (tmp_path / "on.yaml").write_text(manifest("on", "one")))
        await asyncio.sleep(0)
    assert backend.requests == []


async def test_k8s_20_a_stopping_proxy_finishes_calls_and_ends_streams(
    tmp_path: Path, backend: ScriptedBackend
) -> None:
    async def slow(_call: Any) -> Any:
        await asyncio.sleep(2)
        return text("finished")

    backend.tool("slow", slow)
    (tmp_path / "one.yaml").write_text(connection("one", backend.url))
    async with served(tmp_path) as (serve, client):
        others = []
        for _ in range(3):
            other = Client(client.http, client.url)
            await other.initialize()
            await other.listen()
            others.append(other)
        async with FastMcpClient(client.url) as listening:  # ends with its stream, and its calls with it
            calls = [client.call("one_slow"), listening.call_tool("one_slow", {})]
            answers = asyncio.gather(*calls)
            await backend.until(lambda: len(backend.calls_of("slow")) == len(calls))
            assert await serve.end(signal.SIGTERM) == 0
            mine, its = await answers
            assert mine.text == its.content[0].text == "finished"
        for other in others:
            await other.aclose()
    assert backend.live == []


async def test_k8s_21_probes_are_served_under_any_name_and_mcp_is_not(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        origin = client.url.removesuffix("/mcp")
        for host in ("10.0.0.7:8000", "proxy.team.svc", "evil.example"):
            for path in ("/healthz", "/readyz"):
                async with client.http.get(origin + path, headers={"host": host}) as response:
                    assert response.status == 200
            assert (await client.request("ping", host=host)).status == 421


async def test_sca_01_processes_are_those_of_the_clients_and_lists_do_not_add_up(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"c{number}.yaml").write_text(manifest(f"c{number}", "one"))
    async with served(tmp_path) as (serve, client):
        assert len(await client.names()) == 4
        assert _children(serve.process.pid) == 4  # discovery has one each, clients that only list have none
        clients = [Client(client.http, client.url) for _ in range(3)]
        for each in clients:
            await each.initialize()
            await each.names()
            await each.call("c0_one")
        assert _children(serve.process.pid) == 4 + 3
        for each in clients:
            await each.delete()
        async with asyncio.timeout(30):
            while _children(serve.process.pid) != 4:
                await asyncio.sleep(0.05)


def _children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


async def test_a_client_error_is_no_traceback(tmp_path: Path) -> None:
    async with served(tmp_path) as (serve, client):
        with contextlib.suppress(aiohttp.ClientError):
            await client.post(b"\x00" * 10)
        assert "Traceback" not in serve.output
