"""``mcp-connections plan``."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

from tests.cli.conftest import manifest, run, start_command


def actions(result: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Action by connection, from the table."""
    rows = re.findall(
        r"^(keep|add|replace|retire|reject|disabled|unclear) +default/(\S+) ", result.stdout, re.MULTILINE
    )
    return {name: action for action, name in rows}


def test_without_a_proxy_everything_is_new(folder: Path) -> None:
    result = run("plan", folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].split() == ["ACTION", "CONNECTION", "PREFIX", "REASON"]
    assert actions(result) == {"alpha": "add", "beta": "add"}
    assert re.search(r"^add +default/alpha +alpha +Not mounted yet\.$", result.stdout, re.MULTILINE)
    assert not re.search(r" $", result.stdout, re.MULTILINE)


def test_an_empty_folder(tmp_path: Path) -> None:
    result = run("plan", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "No connections" in result.stdout


def test_invalid_files_are_named_each_on_its_line(folder: Path) -> None:
    (folder / "gamma.yaml").write_text(manifest("gamma", enabled="perhaps", prefix=1))
    (folder / "delta.yaml").write_text("{")
    result = run("plan", folder)
    assert result.returncode == 2
    assert actions(result) == {"alpha": "add", "beta": "add"}
    assert "left out of the plan" in result.stderr
    assert "serve does not start" not in result.stderr
    assert re.search(r"gamma\.yaml:\d+:\d+: spec\.enabled: must be true or false", result.stderr)
    assert re.search(r"gamma\.yaml:\d+:\d+: spec\.prefix: must be a string", result.stderr)
    assert re.search(r"delta\.yaml:\d", result.stderr)


def test_an_invalid_proxy_keeps_serve_from_starting(folder: Path) -> None:
    (folder / "proxy.yaml").write_text("kind: McpProxy\nspec: [")
    result = run("plan", folder)
    assert result.returncode == 2
    assert "serve does not start" in result.stderr


def test_a_rejected_connection_is_listed_with_its_reason(folder: Path) -> None:
    (folder / "gamma.yaml").write_text(manifest("gamma", prefix="alpha"))
    result = run("plan", folder)
    assert result.returncode == 2
    assert actions(result) == {"alpha": "add", "beta": "add", "gamma": "reject"}
    assert "PrefixConflict" in result.stdout


def test_a_disabled_connection_is_listed(folder: Path) -> None:
    (folder / "beta.yaml").write_text(manifest("beta", enabled=False))
    result = run("plan", folder)
    assert result.returncode == 0, result.stderr
    assert actions(result) == {"alpha": "add", "beta": "disabled"}
    assert "The connection is disabled (spec.enabled is false)." in result.stdout


async def test_what_an_invalid_file_held_is_not_retired(folder: Path) -> None:
    (folder / "proxy.yaml").write_text(
        "{apiVersion: mcp-connections.io/v1alpha1, kind: McpProxy, metadata: {name: default}, spec: {separator: .}}"
    )
    (folder / "gamma.yaml").write_text(manifest("gamma"))
    async with start_command("serve", folder, "--port", "0", "--admin-port", "0") as serve:
        against = ["--against", await serve.admin()]
        await serve.said("ready +default/gamma")
        (folder / "beta.yaml").write_text(manifest("beta", enabled="perhaps"))
        await serve.said("is still served")
        await serve.said_anew("retired +default/gamma", (folder / "gamma.yaml").unlink)
        result = await asyncio.to_thread(run, "plan", folder, *against)
        assert result.returncode == 2
        assert actions(result) == {"alpha": "keep", "beta": "keep"}
        assert f"{folder / 'beta.yaml'} is invalid: what it last held stays in force." in result.stdout
        assert "a proxy that serves the folder keeps what they last held" in result.stderr

        await serve.said_anew("is still served", lambda: (folder / "beta.yaml").write_text("{"))
        result = await asyncio.to_thread(run, "plan", folder, *against)
        assert actions(result) == {"alpha": "keep", "beta": "unclear"}
        assert f"It stays if {folder / 'beta.yaml'} held it last" in result.stdout

        await serve.said_anew("is still served", lambda: (folder / "proxy.yaml").write_text("kind: McpProxy"))
        result = await asyncio.to_thread(run, "plan", folder, *against)
        assert "separator" not in result.stdout


async def test_against_a_running_proxy(folder: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    wanted.mkdir()
    (wanted / "alpha.yaml").write_text((folder / "alpha.yaml").read_text())
    (wanted / "gamma.yaml").write_text(manifest("gamma"))
    (tmp_path / "token").write_text("s3cret")
    admin = ["--admin-port", "0", "--admin-token-file", str(tmp_path / "token")]
    async with start_command("serve", folder, "--port", "0", *admin) as serve:
        against = ["--against", await serve.admin(), "--token-file", str(tmp_path / "token")]
        await serve.said("ready +default/beta")
        result = await asyncio.to_thread(run, "plan", wanted, *against)
        assert result.returncode == 0, result.stderr
        assert actions(result) == {"alpha": "keep", "beta": "retire", "gamma": "add"}

        (wanted / "alpha.yaml").write_text(manifest("alpha", "one", "two", prefix="a"))
        result = await asyncio.to_thread(run, "plan", wanted, *against, "--separator", ".")
        assert actions(result)["alpha"] == "replace"
        assert "prefix 'alpha' is now 'a'" in result.stdout
        assert "separator '_' is now '.'" in result.stdout

        result = await asyncio.to_thread(run, "plan", wanted, *against[:2])
        assert result.returncode == 1
        mounts = f"{against[1]}/admin/v1/mounts"
        assert result.stderr == (
            f"mcp-connections: {mounts} answers HTTP 401. Give the file that holds its token: --token-file FILE.\n"
        )

        (tmp_path / "token").write_text("wrong")
        result = await asyncio.to_thread(run, "plan", wanted, *against)
        assert result.stderr == (
            f"mcp-connections: {mounts} answers HTTP 401. The token in the --token-file is not that of serve's "
            "--admin-token-file.\n"
        )
