"""The audit line, and the connection in log records: a real ``serve`` whose log is read as a machine would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.backends.calls import Call, RpcFault
from tests.backends.scripted import ScriptedBackend
from tests.cli.conftest import Running, start_command
from tests.proxy.client import Client
from tests.telemetry.manifests import connection, proxy

TOKEN = "a-token-of-clients"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "clients"},
    "stringData": {"token": TOKEN},
}
AUTH = {"bearerTokenRef": {"name": "clients", "key": "token"}}


class Site:
    """A ``serve`` that logs JSON, and a client."""

    def __init__(self, serve: Running, client: Client, folder: Path) -> None:
        self.serve = serve
        self.client = client
        self.folder = folder

    async def records(self) -> list[dict[str, Any]]:
        """Everything that was logged, once the process has ended."""
        await self.client.aclose()
        await self.serve.end()
        return [json.loads(line) for line in self.serve.output.splitlines()]

    async def audited(self) -> list[dict[str, Any]]:
        return [each for each in await self.records() if each["logger"] == "mcp_connections.audit"]


@pytest.fixture
async def site(tmp_path: Path, backend: ScriptedBackend) -> AsyncIterator[Site]:
    async def failing(call: Call) -> Any:
        raise RpcFault(-7, "no")

    backend.tool("failing", failing)
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "one.json").write_text(connection("one", backend.url))
    (folder / "secret.json").write_text(json.dumps(SECRET))
    (folder / "proxy.json").write_text(proxy(auth=AUTH, audit={"calls": True}))
    options = ("--port", "0", "--log-format", "json", "--log-level", "info")
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with start_command("serve", folder, *options) as serve, aiohttp.ClientSession(headers=headers) as http:
        client = Client(http, await serve.endpoint())
        await serve.said("ready +default/one")
        await client.initialize()
        yield Site(serve, client, folder)


async def test_each_call_is_a_line(site: Site, backend: ScriptedBackend) -> None:
    backend.resource("x:thing")
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await site.client.call("one_echo", {"password": "hunter2"})
    await site.client.call("one_failing", _meta={"traceparent": parent})
    await site.client.request("tools/list")
    await backend.stop()
    await site.client.call("one_bump")
    echo, failing, bump = await site.audited()
    assert echo.pop("seconds") > 0
    assert (
        echo.items()
        >= {
            "level": "INFO",
            "connection": "default/one",
            "method": "tools/call",
            "target": "echo",
            "client": "",
            "outcome": "ok",
        }.items()
    )
    assert (failing["target"], failing["outcome"]) == ("failing", "BackendError")
    assert failing["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (bump["target"], bump["outcome"]) == ("bump", "Unreachable")
    assert "hunter2" not in site.serve.output
    assert TOKEN not in site.serve.output


async def test_a_client_cannot_say_what_is_written_of_it(site: Site, backend: ScriptedBackend) -> None:
    backend.resource("x:secret")
    (site.folder / "one.json").write_text(connection("one", backend.url, prefix=""))
    await site.serve.said("replaced +default/one")
    await site.client.request("resources/read", {"uri": "x:secret", "name": "harmless"})
    reference = {"type": "ref/resource", "uri": "x:secret", "name": "harmless"}
    argument = {"name": "a", "value": ""}
    await site.client.request("completion/complete", {"ref": reference, "argument": argument, "name": "harmless"})
    assert [line["target"] for line in await site.audited()] == ["x:secret", "x:secret"]


async def test_a_target_is_bounded(site: Site, backend: ScriptedBackend) -> None:
    backend.template("x:{rest}")
    uri = "x:" + "y" * 5000
    (site.folder / "one.json").write_text(connection("one", backend.url, prefix=""))
    await site.serve.said("replaced +default/one")
    await site.client.request("resources/read", {"uri": uri})
    (line,) = await site.audited()
    assert line["target"] == uri[:256]


async def test_it_is_switched_on_and_off_without_a_restart(site: Site) -> None:
    await site.client.call("one_echo")
    (site.folder / "proxy.json").write_text(proxy(auth=AUTH))
    await site.serve.said("audit: calls True is now False")
    await site.client.call("one_bump")
    (site.folder / "proxy.json").write_text(proxy(auth=AUTH, audit={"calls": True}))
    await site.serve.said("audit: calls False is now True")
    await site.client.call("one_failing")
    assert [line["target"] for line in await site.audited()] == ["echo", "failing"]


async def test_records_about_a_connection_have_its_key(site: Site) -> None:
    (site.folder / "gone.json").write_text(connection("gone", "http://127.0.0.1:9/mcp"))
    await site.serve.said("connection default/gone")
    about = [each for each in await site.records() if each["message"].startswith("connection default/gone")]
    assert about
    assert {each["connection"] for each in about} == {"default/gone"}


async def test_text_lines_are_written_whatever_the_level_is(tmp_path: Path, backend: ScriptedBackend) -> None:
    (tmp_path / "one.json").write_text(connection("one", backend.url))
    (tmp_path / "proxy.json").write_text(proxy(audit={"calls": True}))
    options = ("--port", "0", "--log-level", "error")
    async with start_command("serve", tmp_path, *options) as serve, aiohttp.ClientSession() as http:
        client = Client(http, await serve.endpoint())
        await serve.said("ready +default/one")
        await client.initialize()
        await client.call("one_echo")
        await serve.said("call connection='default/one' method='tools/call' target='echo' client='' outcome='ok'")
        await client.aclose()
