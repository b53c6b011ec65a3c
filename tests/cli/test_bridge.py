"""``mcp-connections bridge`` as the process that it is: what it hands on, whom it lets in, what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from tests.cli.conftest import ECHO_BACKEND, PATIENCE, run, start_command

CHILD = Path(__file__).parents[1] / "backends" / "stdio_child.py"


async def called(url: str, tool: str, token: str | None = None, **arguments: Any) -> Any:
    async with Client(url, auth=token, timeout=PATIENCE) as client:
        block: Any = (await client.call_tool(tool, arguments)).content[0]
        return json.loads(block.text)


async def gone(pids: list[int]) -> None:
    async with asyncio.timeout(PATIENCE):
        while any(map(lives, pids)):
            await asyncio.sleep(0.01)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("options", [[], ["--stubborn", "--grandchild"]], ids=["tame", "stubborn"])
async def test_two_clients_are_two_processes_and_none_is_left(options: list[str]) -> None:
    async with start_command("bridge", "--port", "0", "--", sys.executable, "-IS", CHILD, *options) as bridge:
        url = await bridge.endpoint()
        async with Client(url, timeout=PATIENCE) as one, Client(url, timeout=PATIENCE) as two:
            answers = [json.loads((await each.call_tool("whoami")).content[0].text) for each in (one, two, one)]
            pids = [pid for answer in answers for pid in answer["pids"]]
            assert [answer["calls"] for answer in answers] == [1, 1, 2]
            assert answers[0]["pids"] == answers[2]["pids"] != answers[1]["pids"]
            assert await bridge.end() == 0
    await gone(pids)


async def test_the_program_has_the_variables_of_the_container_and_the_directory_it_was_given(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ECHO_BACKEND.read_text())
    command = (
        "bridge",
        "--port",
        "0",
        "--secret",
        "WORD",
        "--working-dir",
        tmp_path,
        "--",
        sys.executable,
        "program.py",
    )
    async with start_command(*command, env={"WORD": "  of-a-secret\n"}) as bridge:
        assert (await called(await bridge.endpoint(), "echo"))["variable"] == "of-a-secret"


async def test_the_token_is_asked_for_and_followed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-token\n")
    command = ("bridge", "--port", "0", "--token-file", token, "--", sys.executable, ECHO_BACKEND, "echo")
    async with start_command(*command) as bridge:
        url = await bridge.endpoint()
        assert await called(url, "echo", "first-token")
        with pytest.raises(Exception, match="token"):
            await called(url, "echo")

        await bridge.said_anew("the token has changed", lambda: token.write_text("second-token"))
        assert await called(url, "echo", "second-token")
        with pytest.raises(Exception, match="token"):
            await called(url, "echo", "first-token")

        await bridge.said_anew("The token stays as it is", lambda: token.write_text(""))
        assert await called(url, "echo", "second-token")
        assert "-token" not in bridge.output


def test_a_bridge_that_others_can_reach_needs_a_token(tmp_path: Path) -> None:
    ended = run("bridge", "--host", "0.0.0.0", "--port", "0", "--", "server")
    assert ended.returncode == 2
    assert "--token-file" in ended.stderr

    ended = run("bridge", "--token-file", tmp_path / "none", "--", "server")
    assert ended.returncode == 2
    assert "token file" in ended.stderr


async def test_a_drained_bridge_finishes_the_call(tmp_path: Path) -> None:
    released = tmp_path / "released"
    command = ("bridge", "--port", "0", "--drain", "30", "--", sys.executable, "-IS", CHILD)
    async with start_command(*command) as bridge:
        url = await bridge.endpoint()
        async with Client(url, timeout=PATIENCE) as client:
            before = json.loads((await client.call_tool("whoami")).content[0].text)
            call = asyncio.create_task(client.call_tool("wait", {"file": str(released)}))
            await asyncio.sleep(0.3)
            ending = asyncio.create_task(bridge.end())
            await asyncio.sleep(0.3)
            os.kill(before["pids"][0], 0)
            released.touch()
            assert json.loads((await call).content[0].text)["calls"] == 2
            assert await ending == 0
