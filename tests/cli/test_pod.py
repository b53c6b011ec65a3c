"""``mcp-connections proxy``: mounted files, pushes, and which of them wins."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
import sys
from pathlib import Path

import aiohttp
import pytest
from fastmcp import Client

from mcp_connections.api.meta import ObjectMeta
from mcp_connections.api.proxy import McpProxy
from mcp_connections.cli.mounted_files import MountedFiles
from mcp_connections.cli.pod import LOOK_AGAIN, PUSH_HOLDS, PodControl
from mcp_connections.cli.running import Ports, Reporter
from mcp_connections.mounts.spec import Access, ConnectionKey, DesiredMounts, MountSpec, StdioServer
from mcp_connections.operator import mount_secrets
from mcp_connections.operator.admin_client import AdminAddress, AdminClient
from mcp_connections.proxy.admin.control import SourceError
from mcp_connections.proxy.process import ProxyProcess
from tests.cli.conftest import ECHO_BACKEND, PATIENCE, run, start_command

PROXY = McpProxy(metadata=ObjectMeta(name="default", namespace="team", uid="u"))
TOKEN = "a-token-of-the-test"
LOCAL = Ports(host="127.0.0.1", port=0, admin_port=None, admin_token_file=None)


def desired(*names: str, padding: str = "") -> DesiredMounts:
    """One echo backend a name."""
    specs = (
        MountSpec(
            connection=ConnectionKey(namespace="team", name=name, uid=f"uid-{name}"),
            fingerprint=f"fingerprint-{name}",
            prefix=name,
            server=StdioServer(command=(sys.executable, str(ECHO_BACKEND), "echo"), env={"PADDING": padding}),
        )
        for name in names
    )
    return DesiredMounts(mounts=tuple(specs))


def write(folder: Path, mounts: DesiredMounts) -> int:
    """Put the Secrets' data where a kubelet would: a new folder, and one symbolic link that is swapped. How many
    parts there were."""
    secrets = mount_secrets.mount_secrets(PROXY, mounts)
    data = {key: base64.b64decode(value) for secret in secrets for key, value in secret["data"].items()}
    version = folder / f"..{os.urandom(4).hex()}"
    version.mkdir()
    for key, value in data.items():
        (version / key).write_bytes(value)
        if not (folder / key).is_symlink():
            (folder / key).symlink_to(Path("..data", key))
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").replace(folder / "..data")
    return len(data)


async def tools(url: str) -> list[str]:
    async with Client(url, timeout=PATIENCE) as client:
        return sorted(tool.name for tool in await client.list_tools())


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    folder = tmp_path / "mounts"
    folder.mkdir()
    return folder


@pytest.fixture
def options(mounts: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "token").write_text(TOKEN)
    admin = ["--admin-port", "0", "--admin-token-file", str(tmp_path / "token")]
    return ["proxy", "--mounts", str(mounts), "--port", "0", *admin]


async def test_starts_from_the_files_and_follows_them(mounts: Path, options: list[str]) -> None:
    write(mounts, desired("alpha"))
    async with start_command(*options) as pod:
        url = await pod.endpoint()
        await pod.said(r"ready +team/alpha")
        assert await tools(url) == ["alpha_echo"]
        await pod.said_anew(r"added +team/beta", lambda: write(mounts, desired("alpha", "beta")))
        assert await tools(url) == ["alpha_echo", "beta_echo"]
        assert await pod.end() == 0


async def test_a_push_is_in_effect_at_once_and_stays(mounts: Path, options: list[str]) -> None:
    write(mounts, desired("alpha"))
    async with start_command(*options) as pod, AdminClient() as client:
        url = await pod.endpoint()
        await pod.said(r"ready +team/alpha")
        address = AdminAddress("127.0.0.1", int((await pod.admin()).rpartition(":")[2]))
        pushed = desired("alpha", "beta").model_dump_json(by_alias=True).encode()
        result = await client.push(address, TOKEN, pushed)
        assert [one.name for one in result.added] == ["beta"]
        report = await client.report(address, TOKEN)
        assert [mount.connection.name for mount in report.mounts] == ["alpha", "beta"]
        # Older files that arrive late do not undo it.
        write(mounts, desired("alpha", "older"))
        await asyncio.sleep(1)
        assert await tools(url) == ["alpha_echo", "beta_echo"]


async def test_waits_for_usable_files(mounts: Path, options: list[str]) -> None:
    (mounts / "mounts.json.gz").write_bytes(b"not gzip")
    async with start_command(*options) as pod, aiohttp.ClientSession() as http:
        url = await pod.endpoint()
        await pod.said(r"mounts\.json\.gz do not make a DesiredMounts .* The mounts stay as they are")
        async with http.get(url.replace("/mcp", "/readyz")) as response:
            assert response.status == 503
        (mounts / "mounts.json.gz").unlink()
        await pod.said_anew(r"ready +team/alpha", lambda: write(mounts, desired("alpha")))
        async with http.get(url.replace("/mcp", "/readyz")) as response:
            assert response.status == 200


def test_it_is_not_opened_to_other_machines_by_oversight(mounts: Path, options: list[str]) -> None:
    write(mounts, desired())
    result = run(*options, "--host", "0.0.0.0")
    assert result.returncode == 2
    assert "At 0.0.0.0 other machines can reach the endpoint" in result.stderr


async def test_a_push_does_not_open_it_either(mounts: Path, options: list[str]) -> None:
    guarded = desired().model_copy(update={"access": Access(method="bearer", bearer_token="of clients")})
    write(mounts, guarded)
    async with start_command(*options, "--host", "0.0.0.0") as pod, aiohttp.ClientSession() as http:
        url = await pod.endpoint()
        push = (await pod.admin()).removesuffix("/admin/mcp") + "/admin/v1/mounts"
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        async with http.put(push, data=desired().model_dump_json(by_alias=True), headers=headers) as response:
            assert response.status == 422
            assert "Nothing was changed. At 0.0.0.0 other machines" in (await response.json())["message"]
        async with http.post(url, json={}) as response:
            assert response.status == 401


def test_parts_are_put_together(mounts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_secrets, "PART_SIZE", 1000)
    wanted = desired("alpha", padding=os.urandom(1500).hex())
    assert write(mounts, wanted) > 1
    assert MountedFiles(mounts).read() == wanted


def test_parts_that_do_not_belong_together_are_told(mounts: Path) -> None:
    (mounts / "mounts.json.gz").write_bytes(gzip.compress(b"{}")[:-3])
    with pytest.raises(SourceError, match=r"mounts\.json\.gz do not make"):
        MountedFiles(mounts).read()


def test_an_error_holds_no_credential(mounts: Path) -> None:
    (mounts / "mounts.json.gz").write_bytes(gzip.compress(b'{"mounts": [{"server": {"headers": "hunter2"}}]}'))
    with pytest.raises(SourceError) as caught:
        MountedFiles(mounts).read()
    assert "hunter2" not in str(caught.value)


async def test_files_count_again_once_a_push_is_old(mounts: Path) -> None:
    clock = [0.0]
    process = ProxyProcess(host="127.0.0.1")
    said: list[str] = []
    control = PodControl(process, MountedFiles(mounts), LOCAL, Reporter(process, said.append), now=lambda: clock[0])

    def mounted() -> list[str]:
        return [mount.connection.name for mount in control.report().mounts]

    try:
        write(mounts, desired("file"))
        await control.start()
        await control.apply(desired("pushed"))
        write(mounts, desired("newer"))
        clock[0] = PUSH_HOLDS - 1
        await control.look()
        assert mounted() == ["pushed"]
        clock[0] = PUSH_HOLDS
        await control.look()
        assert mounted() == ["newer"]
        # The same content once more is no news, whatever was pushed since.
        await control.apply(desired("pushed"))
        clock[0] += PUSH_HOLDS
        await control.look()
        assert mounted() == ["pushed"]
        assert [one.name for one in (await control.reload()).added] == ["newer"]
    finally:
        await process.registry.aclose()


def test_files_are_looked_at_soon_after_a_push_is_old() -> None:
    assert LOOK_AGAIN < PUSH_HOLDS
