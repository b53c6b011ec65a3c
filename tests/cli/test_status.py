"""``mcp-connections status``: of one proxy, and of a real API server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mcp_connections.cli.brief import brief
from mcp_connections.cli.tables import age
from tests.cli.conftest import manifest, run, start_command
from tests.cluster.control_plane import ControlPlane


async def test_a_program_that_ends_with_many_lines_takes_one_line(folder: Path) -> None:
    script = "for i in $(seq 9); do echo line $i >&2; done; echo 'Error: no database' >&2; echo } >&2; exit 3"
    (folder / "ends.yaml").write_text(manifest("ends", transport={"stdio": {"command": ["sh", "-c", script]}}))
    async with start_command("serve", folder, "--port", "0", "--admin-port", "0") as serve:
        url = await serve.admin()
        await serve.said("failed +default/ends")
        result = await asyncio.to_thread(run, "status", "--url", url)
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert set(rows) == {"CONNECTION", "default/alpha", "default/beta", "default/ends"}
    assert rows["default/ends"].endswith("exited with code 3; its stderr ends with: Error: no database")


def test_what_a_message_of_many_lines_comes_down_to() -> None:
    assert brief("cannot connect") == "cannot connect"
    assert (
        brief("x: exited with code 1; its stderr ends with: one") == "x: exited with code 1; its stderr ends with: one"
    )
    node = "; its stderr ends with: /app/x.js:1\n  throw\n\nError: no port\n    at main (x.js:1:7)\n\nNode.js v22.1.0"
    assert brief(f"x: exited{node}") == "x: exited; its stderr ends with: Error: no port"
    assert brief("first\n}\n]") == "first … ]"
    assert len(brief("first\n" + "word " * 1000)) < 200


def test_of_a_proxy_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        where = f"127.0.0.1:{holder.getsockname()[1]}"
    result = run("status", "--url", where)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"mcp-connections: http://{where}/admin/v1/mounts: cannot connect to {where}: Connection refused. Start serve"
    )


async def test_of_one_proxy(folder: Path, tmp_path: Path) -> None:
    (folder / "gamma.yaml").write_text(manifest("gamma", prefix="beta"))
    (folder / "off.yaml").write_text(manifest("off", enabled=False))
    (folder / "broken.yaml").write_text(manifest("broken", transport={"stdio": {"command": ["/no/such/program"]}}))
    (tmp_path / "token").write_text("s3cret")
    admin = ["--admin-port", "0", "--admin-token-file", str(tmp_path / "token")]
    async with start_command("serve", folder, "--port", "0", *admin) as serve:
        url = await serve.admin()
        await serve.said("ready +default/beta")
        await serve.said("failed +default/broken")
        result = await asyncio.to_thread(run, "status", "--url", url, "--token-file", tmp_path / "token")
    assert result.returncode == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert [line for line in (header, *rows) if line != line.rstrip()] == []
    assert header.split() == ["CONNECTION", "PREFIX", "TRANSPORT", "TOOLS", "READY", "REASON", "AGE", "MESSAGE"]
    table = {row.split()[0]: row for row in rows}
    assert re.match(r"default/alpha +alpha +stdio +2 +True +Ready +\d+s", table["default/alpha"])
    assert re.match(
        r"default/broken +broken +stdio +0 +False +CommandNotFound .*/no/such/program", table["default/broken"]
    )
    assert re.match(r"default/gamma +False +PrefixConflict ", table["default/gamma"])
    assert re.match(r"default/off +False +Disabled +spec\.enabled is false\. Set it to true", table["default/off"])


def test_of_a_cluster(control_plane: ControlPlane, namespace: str) -> None:
    proxy = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpProxy",
        "metadata": {"name": "default", "namespace": namespace},
    }
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(proxy))
    control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=manifest("github"))
    status = {
        "conditions": [_condition("Ready", "False", "Unreachable", "cannot connect to github:443")],
        "mount": {"fingerprint": "f", "prefix": "gh", "transport": "stdio"},
        "catalog": {"tools": 7},
    }
    patch = ["--subresource", "status", "--type", "merge", "-p", json.dumps({"status": status})]
    control_plane.kubectl("patch", "mcpc", "github", "-n", namespace, *patch)
    select = ["--kubeconfig", str(control_plane.kubeconfig)]

    result = run("status", "-n", namespace, *select)
    assert result.returncode == 0, result.stderr
    assert re.search(rf"^{namespace} +default +0 +0 +0 +Unknown +Unknown +\d+s", result.stdout, re.MULTILINE)
    row = rf"^{namespace} +github +gh +stdio +7 +False +Unreachable +\d+s +cannot connect to github:443$"
    assert re.search(row, result.stdout, re.MULTILINE)

    assert re.search(row, run("status", "-A", *select).stdout, re.MULTILINE)
    empty = run("status", "-n", "kube-public", *select)
    assert (empty.returncode, empty.stdout) == (0, "No McpProxy and no McpConnection in kube-public.\n")


def test_of_a_cluster_that_does_not_answer(dead_kubeconfig: Path) -> None:
    result = run("status", "--kubeconfig", dead_kubeconfig)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr


@pytest.fixture
def dead_kubeconfig(tmp_path: Path) -> Path:
    """A cluster that is not there."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "u", "user": {}}],
                "current-context": "x",
            }
        )
    )
    return path


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=-5), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=121), "2m1s"),
        (timedelta(minutes=10, seconds=5), "10m"),
        (timedelta(minutes=119, seconds=59), "119m"),
        (timedelta(hours=2), "2h"),
        (timedelta(hours=5, minutes=30), "5h30m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=400), "400d"),
    ],
)
def test_age(passed: timedelta, text: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - passed, now) == text


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
