"""Every command ends on bad input with one clear line and code 2, and on failure with code 1."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ENVIRONMENT, PATIENCE, run

OPEN = ("--port", "0", "--host", "0.0.0.0", "--allow-unauthenticated")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nonsense"], 2, "No such command 'nonsense'. See 'mcp-connections --help'."),
        (["serv"], 2, "Did you mean 'serve'? See 'mcp-connections --help'."),
        (["serve"], 2, "Missing argument 'DIR'. See 'mcp-connections serve --help'."),
        (["serve", ".", "--prot", "1"], 2, "See 'mcp-connections serve --help'."),
        (["serve", ".", "--admin-token-file", "a-file"], 2, "--admin-token-file belongs to --admin-port"),
        (["serve", "missing"], 2, "missing does not exist. Give the folder that holds the manifests."),
        (["serve", "a-file"], 2, "a-file is not a folder"),
        (["serve", ".", "--port", "70000"], 2, "'--port'"),
        (["serve", ".", "--separator", "->"], 2, "--separator must be 1 to 4 of the characters"),
        (["serve", ".", "--admin-port", "0", "--admin-token-file", "missing"], 2, "cannot read the token file missing"),
        (["serve", ".", "--admin-port", "0", "--admin-token-file", "empty"], 2, "the token file empty is empty"),
        (["serve", ".", *OPEN, "--admin-port", "0"], 1, "give --admin-token-file"),
        (["serve", ".", "--port", "{taken}"], 1, "127.0.0.1:{taken}: Address already in use; choose another --port"),
        (["serve", ".", "--port", "8300", "--admin-port", "8300"], 2, "--port and --admin-port are both 8300."),
        (
            ["serve", ".", "--host", "192.0.2.1", "--allow-unauthenticated"],
            1,
            "; give --host an address of this machine",
        ),
        (["plan", "missing"], 2, "missing does not exist"),
        (["plan", ".", "--token-file", "a-file"], 2, "--token-file belongs to --against"),
        (["plan", ".", "--against", "http://127.0.0.1:1"], 1, "http://127.0.0.1:1/admin/v1/mounts: "),
        (["status", "--url", "http://127.0.0.1:1"], 1, "Start serve with --admin-port"),
        (["status", "--url", "ftp://host"], 2, "'ftp://host' is not the URL of an admin port"),
        (["status", "--url", "http://host:port"], 2, "is not a URL"),
        (["status", "--token-file", "a-file"], 2, "--token-file belongs to --url"),
        (["status", "--kubeconfig", "missing"], 1, "No credentials for a cluster"),
        (
            ["status", "--kubeconfig", "missing"],
            1,
            "For a folder served with --admin-port: --url http://127.0.0.1:PORT",
        ),
        (["proxy", "--mounts", "missing"], 2, "missing is not a folder. Mount the Secret"),
        (["crd", "--output", "a-file"], 1, "cannot write a-file"),
    ],
)
def test_one_clear_line(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "empty").write_text("\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        result = run(*(one.replace("{taken}", taken) for one in arguments), cwd=tmp_path)
    assert result.returncode == code, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("mcp-connections: ")
    assert said.replace("{taken}", taken) in lines[0]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["serve", "--help"], ["plan", "--help"], ["status", "--help"]])
def test_help(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: mcp-connections")
    assert result.stderr == ""


def test_an_output_nobody_reads_is_no_fault() -> None:
    command = f"{shlex.quote(sys.executable)} -m mcp_connections crd | true"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE, check=False
    )
    assert result.stderr == ""
