"""``mcp-connections serve``: what it serves, what it tells, how it follows its folder, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fastmcp import Client

from tests.cli.conftest import PATIENCE, Running, manifest, run, start, start_command


def proxy_manifest(**spec: object) -> str:
    meta = {"apiVersion": "mcp-connections.io/v1alpha1", "kind": "McpProxy", "metadata": {"name": "default"}}
    return json.dumps({**meta, "spec": spec})


async def tools(url: str) -> list[str]:
    async with Client(url, timeout=PATIENCE) as client:
        return sorted(tool.name for tool in await client.list_tools())


async def call(url: str, name: str) -> dict[str, Any]:
    async with Client(url, timeout=PATIENCE) as client:
        result = await client.call_tool_mcp(name, {})
        answer: dict[str, Any] = json.loads(result.content[0].text)
        return answer


async def pid_of_own_session(url: str, tool: str) -> int:
    """Open a session, call a tool in it, and leave it open; the pid of the backend that serves it."""
    headers = {"Accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with aiohttp.ClientSession(headers=headers) as http:
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        async with http.post(url, json=initialize) as response:
            session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool}}
        async with http.post(url, json=request, headers=session) as response:
            answer = json.loads((await response.text()).rpartition("data: ")[2])
    pid: int = json.loads(answer["result"]["content"][0]["text"])["pid"]
    return pid


async def gone(pid: int) -> bool:
    for _ in range(int(PATIENCE * 10)):
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            await asyncio.sleep(0.1)
            continue
        return True
    return False


async def test_serves_a_folder_and_says_what_is_mounted(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        url = await serve.endpoint()
        await serve.said(r"ready +default/alpha +stdio as 'alpha': 2 tools")
        await serve.said(r"ready +default/beta +stdio as 'beta': 1 tool$")
        assert await tools(url) == ["alpha_one", "alpha_two", "beta_three"]
        assert "admin" not in serve.output
        assert await serve.end() == 0


async def test_says_what_failed_and_serves_the_rest(folder: Path) -> None:
    (folder / "broken.yaml").write_text(manifest("broken", transport={"stdio": {"command": ["/no/such/program"]}}))
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said(r"failed +default/broken +stdio: CommandNotFound: .*/no/such/program")
        assert await tools(await serve.endpoint()) == ["alpha_one", "alpha_two", "beta_three"]


async def test_says_what_was_rejected(folder: Path) -> None:
    (folder / "gamma.yaml").write_text(manifest("gamma", prefix="beta"))
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said(r"rejected +default/gamma +PrefixConflict: .*beta")


@pytest.mark.usefixtures("hang_up")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_and_its_children(folder: Path, number: int) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")
        pid = await pid_of_own_session(url, "beta_three")
        assert await serve.end(number) == 0
        assert await gone(pid)
        assert "Traceback" not in serve.output


async def test_a_change_is_served_and_told(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")
        before = await call(url, "beta_three")
        assert before["variable"] is None

        await serve.said_anew(
            r"replaced +default/beta +stdio as 'beta': 1 tool",
            lambda: (folder / "beta.yaml").write_text(manifest("beta", "three", word="changed")),
        )
        assert (await call(url, "beta_three"))["variable"] == "changed"

        await serve.said_anew(
            r"added +default/gamma", lambda: (folder / "gamma.yaml").write_text(manifest("gamma", "four"))
        )
        assert "gamma_four" in await tools(url)
        assert "alpha" not in serve.output

        await serve.said_anew(r"retired +default/gamma +Removed", (folder / "gamma.yaml").unlink)
        assert "gamma_four" not in await tools(url)

        await serve.said_anew(
            r"retired +default/alpha +Disabled",
            lambda: (folder / "alpha.yaml").write_text(manifest("alpha", "one", "two", enabled=False)),
        )
        assert await tools(url) == ["beta_three"]


async def test_an_invalid_file_is_named_and_changes_nothing(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")

        await serve.said_anew(
            r"error: .*beta\.yaml:\d+:\d+: spec\.enabled: must be true or false",
            lambda: (folder / "beta.yaml").write_text(manifest("beta", "three", enabled="perhaps")),
        )
        await serve.said("What these files last held while they were valid is still served")
        assert await tools(url) == ["alpha_one", "alpha_two", "beta_three"]
        assert "reloaded" not in serve.output

        await serve.said_anew(
            "all files are valid again", lambda: (folder / "beta.yaml").write_text(manifest("beta", "five"))
        )
        await serve.said(r"replaced +default/beta")
        assert await tools(url) == ["alpha_one", "alpha_two", "beta_five"]


async def test_an_invalid_file_at_the_start_does_not_keep_the_others_from_being_served(folder: Path) -> None:
    (folder / "broken.yaml").write_text("kind: McpConnection\nspec: [")
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said(r"error: .*broken\.yaml:\d+:\d+: is not valid YAML")
        await serve.said("These files are left out until they are valid")
        await serve.said(r"ready +default/beta")


def test_strict_does_not_start_with_an_invalid_file(folder: Path) -> None:
    (folder / "broken.yaml").write_text("kind: McpConnection\n")
    result = run("serve", folder, "--port", "0", "--strict")
    assert result.returncode == 2
    assert "broken.yaml" in result.stderr
    assert "start without --strict" in result.stderr


async def test_strict_is_not_ready_until_every_connection_is(folder: Path) -> None:
    (folder / "broken.yaml").write_text(manifest("broken", transport={"stdio": {"command": ["/no/such/program"]}}))
    async with start_command("serve", folder, "--port", "0", "--strict") as serve, aiohttp.ClientSession() as http:
        url = (await serve.endpoint()).replace("/mcp", "/readyz")
        await serve.said("failed +default/broken")
        async with http.get(url) as response:
            assert response.status == 503
        await serve.said_anew(r"retired +default/broken", (folder / "broken.yaml").unlink)
        async with http.get(url) as response:
            assert response.status == 200


async def test_the_separator_of_the_command_line_wins(folder: Path) -> None:
    (folder / "proxy.json").write_text(proxy_manifest(separator=":"))
    async with start_command("serve", folder, "--port", "0", "--separator", ".") as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")
        assert await tools(url) == ["alpha.one", "alpha.two", "beta.three"]


def test_an_endpoint_is_not_opened_to_other_machines_by_oversight(folder: Path) -> None:
    result = run("serve", folder, "--port", "0", "--host", "0.0.0.0")
    assert result.returncode == 2
    assert "At 0.0.0.0 other machines can reach the endpoint" in result.stderr
    assert "none: {} there means everybody" in result.stderr


@pytest.mark.parametrize(
    ("options", "auth"),
    [
        (("--host", "0.0.0.0"), {"none": {}}),
        (("--host", "0.0.0.0", "--allow-unauthenticated"), None),
        (("--host", "::1"), None),
    ],
)
async def test_it_is_opened_on_purpose(folder: Path, options: tuple[str, ...], auth: dict[str, object] | None) -> None:
    if auth is not None:
        (folder / "proxy.json").write_text(proxy_manifest(auth=auth))
    async with start_command("serve", folder, "--port", "0", *options) as serve:
        await serve.said("ready +default/beta")


async def test_a_change_does_not_open_it_either(folder: Path) -> None:
    (folder / "secret.json").write_text(
        json.dumps(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "clients"}, "stringData": {"token": "s3cret"}}
        )
    )
    guarded = proxy_manifest(auth={"bearerTokenRef": {"name": "clients", "key": "token"}})
    (folder / "proxy.json").write_text(guarded)
    async with start_command("serve", folder, "--port", "0", "--host", "0.0.0.0") as serve:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")
        (folder / "proxy.json").write_text(proxy_manifest())
        await serve.said("error: At 0.0.0.0 other machines can reach the endpoint.* Everything stays as it is")
        async with aiohttp.ClientSession() as http, http.post(url, json={}) as response:
            assert response.status == 401


def test_a_proxy_that_cannot_be_put_into_effect_is_refused(folder: Path) -> None:
    (folder / "proxy.json").write_text(proxy_manifest(auth={"bearerTokenRef": {"name": "missing", "key": "token"}}))
    result = run("serve", folder, "--port", "0")
    assert result.returncode == 2
    assert "McpProxy default/default: SecretNotFound: The Secret default/missing" in result.stderr


AUTH = {"bearerTokenRef": {"name": "token", "key": "value"}}
TOKEN = json.dumps(
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"value": "s3cret-of-16-chars"}}
)


def test_an_invalid_proxy_at_the_start_is_refused(folder: Path) -> None:
    """It may be the one that keeps the endpoint closed."""
    (folder / "proxy.yaml").write_text(json.dumps(json.loads(proxy_manifest(auth=AUTH, seperator=".")), indent=1))
    (folder / "secret.yaml").write_text(TOKEN)
    result = run("serve", folder, "--port", "0")
    assert result.returncode == 2
    assert re.search(r"proxy\.yaml:\d+:\d+: spec\.seperator: is not a known field", result.stderr)
    assert "not started" in result.stderr
    assert len(result.stderr.splitlines()) == 1


async def test_an_invalid_proxy_leaves_the_endpoint_as_closed_as_it_was(folder: Path) -> None:
    (folder / "proxy.yaml").write_text(proxy_manifest(auth=AUTH))
    (folder / "secret.yaml").write_text(TOKEN)
    async with start_command("serve", folder, "--port", "0") as serve, aiohttp.ClientSession() as http:
        url = await serve.endpoint()
        await serve.said("ready +default/beta")

        async def status() -> int:
            async with http.post(url, json={}) as response:
                return response.status

        assert await status() == 401
        invalid = proxy_manifest(auth=AUTH, seperator=".")
        await serve.said_anew("seperator", lambda: (folder / "proxy.yaml").write_text(invalid))
        assert await status() == 401
        await serve.said_anew(r"settings\.yaml", lambda: (folder / "proxy.yaml").rename(folder / "settings.yaml"))
        await serve.said_anew("added +default/gamma", lambda: (folder / "gamma.yaml").write_text(manifest("gamma")))
        assert await status() == 401


async def test_changes_of_settings_are_told(folder: Path) -> None:
    (folder / "proxy.yaml").write_text(proxy_manifest(auth=AUTH))
    (folder / "secret.yaml").write_text(TOKEN)
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said("ready +default/beta")
        changed = TOKEN.replace("s3cret-of", "an0ther-of")
        await serve.said_anew("settings  auth bearer: the token changed$", lambda: write(folder, "secret", changed))
        await serve.said_anew(
            "reloaded:\n  settings  separator '_' is now '__'$",
            lambda: write(folder, "proxy", proxy_manifest(auth=AUTH, separator="__")),
        )
        await serve.said_anew(
            "settings  auth bearer is now unset: clients need no token$", (folder / "proxy.yaml").unlink
        )
        assert "-of-16-chars" not in serve.output


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(text)


async def test_log_lines_as_json(folder: Path) -> None:
    (folder / "broken.yaml").write_text(manifest("broken", transport={"stdio": {"command": ["/no/such/program"]}}))
    async with start_command("serve", folder, "--port", "0", "--log-format", "json", "--log-level", "info") as serve:
        await serve.said("default/broken")
        await serve.said("ready +default/beta")
        await serve.end()
        records = [json.loads(line) for line in serve.output.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(records[0])
    assert any(record["level"] == "WARNING" and "default/broken" in record["message"] for record in records)
    assert any(record["message"].startswith("endpoint") for record in records)


class Admin:
    """A client of the admin port of a running command."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def __call__(self, tool: str) -> dict[str, Any]:
        result = await self._client.call_tool(tool, {})
        assert result.structured_content is not None
        return result.structured_content


async def test_the_admin_port_administers_the_folder(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0", "--admin-port", "0") as serve:
        url = await serve.admin()
        await serve.said("ready +default/beta")
        async with Client(f"{url}/admin/mcp", timeout=PATIENCE) as client:
            await _administer(Admin(client), folder, serve)
        async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as response:
            assert 'mcp_connections_mounts{state="Ready"} 1.0' in await response.text()


async def _administer(admin: Admin, folder: Path, serve: Running) -> None:
    listed = await admin("list_mounts")
    assert [(mount["connection"]["name"], mount["ready"]) for mount in listed["mounts"]] == [
        ("alpha", True),
        ("beta", True),
    ]
    health = await admin("check_health")
    assert (health["healthy"], health["unhealthy"]) == (2, 0)
    assert (await admin("plan"))["unchanged"] is True
    assert [one["name"] for one in (await admin("reload"))["kept"]] == ["alpha", "beta"]

    # What is not valid is told, and leaves everything as it is.
    await serve.said_anew("error: .*beta.yaml", lambda: (folder / "beta.yaml").write_text("kind: 1"))
    for tool in ("plan", "reload"):
        with pytest.raises(Exception, match=r"beta\.yaml:1"):
            await admin(tool)
    assert (await admin("check_health"))["healthy"] == 2

    await serve.said_anew(r"retired +default/beta", (folder / "beta.yaml").unlink)
    assert [one["connection"]["name"] for one in (await admin("list_mounts"))["retired"]] == ["beta"]


async def test_the_admin_port_asks_for_its_token(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    options = ["--admin-port", "0", "--admin-token-file", str(tmp_path / "token")]
    async with start_command("serve", folder, "--port", "0", *options) as serve, aiohttp.ClientSession() as http:
        url = f"{await serve.admin()}/admin/v1/mounts"
        async with http.get(url) as response:
            assert response.status == 401
        async with http.get(url, headers={"Authorization": "Bearer s3cret"}) as response:
            assert response.status == 200


async def test_a_file_whose_name_is_no_text_is_named(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said("ready .*alpha")
        (folder / os.fsdecode(b"a\xff\x1b\n.yaml")).write_text("kind: [")
        await serve.said(r"error: .*a\\udcff\\x1b\\n\.yaml:2")
        await serve.said_anew("added .*gamma", lambda: (folder / "gamma.yaml").write_text(manifest("gamma", "four")))


async def test_serving_goes_on_where_nothing_can_be_told(folder: Path) -> None:
    """The disk that stdout goes to is full."""
    command = 'exec "$0" -m mcp_connections serve "$1" --port 0 --admin-port 0 >/dev/full'
    async with start("sh", "-c", command, sys.executable, folder) as serve:
        url = (await serve.said(r"stdout cannot be written.* endpoint +(http://\S+)")).group(1)
        await serve.said("not said there: +ready .*alpha")
        assert "alpha_one" in await tools(url)
        (folder / "gamma.yaml").write_text(manifest("gamma", "four"))
        await serve.said("not said there: +(ready|added) .*gamma.*1 tool")
        assert "gamma_four" in await tools(url)
        assert await serve.end() == 0


async def test_nohup_is_respected(folder: Path) -> None:
    command = """trap '' HUP; exec "$0" -m mcp_connections serve "$1" --port 0"""
    async with start("sh", "-c", command, sys.executable, folder) as serve:
        await serve.said("ready +default/alpha")
        serve.process.send_signal(signal.SIGHUP)
        await serve.said_anew("added .*gamma", lambda: (folder / "gamma.yaml").write_text(manifest("gamma", "four")))
