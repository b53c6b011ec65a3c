"""stdio: framing, noise, floods and faults of a child process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

import pytest

from mcp_connections.mounts.spec import StdioServer
from mcp_connections.proxy.channels.channel import CommandNotFound, Exited, ProtocolViolation, TimedOut, Unreachable
from mcp_connections.proxy.channels.child_process import child_environment
from mcp_connections.proxy.channels.stdio import StdioChannel
from tests.channels.children import Children
from tests.channels.wire import Session, ask, eventually, ignore, notification, request


async def test_messages_go_both_ways(children: Children) -> None:
    channel = children.channel("""
pending = None
while (message := read()) is not None:
    if message.get("method") == "start":
        pending = message
        write(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}\\n')
        write(b'{"jsonrpc":"2.0","id":"own-1","method":"roots/list"}\\n')
    elif message.get("id") == "own-1":
        answer(pending, {"roots": message["result"], "noted": noted})
    else:
        noted = message["method"]
""")
    session = Session(channel)
    await channel.open()
    exchange = asyncio.create_task(ask(channel, 1, "start"))
    await session.until(lambda s: len(s.messages) == 2)
    assert session.messages[0] == {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"n": 1}}
    assert session.messages[1]["id"] == "own-1"
    await channel.send(notification("notifications/x"))
    await channel.send(b'{"jsonrpc":"2.0","id":"own-1","result":["file:///a"]}')
    assert await exchange == {"roots": ["file:///a"], "noted": "notifications/x"}
    assert channel.pid in children.alive()
    await channel.aclose()
    assert not session.losses


async def test_many_exchanges_at_a_time(children: Children) -> None:
    channel = children.channel()
    await channel.open()
    results = await asyncio.gather(*(ask(channel, number, n=number) for number in range(500)))
    assert results == [{"n": number} for number in range(500)]
    await channel.aclose()


async def test_a_message_with_line_breaks_stays_one_message(children: Children) -> None:
    channel = children.channel()
    await channel.open()
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "a\nb", "list": [1, 2]}}, indent=2
    ).encode()
    message = await channel.exchange(1, body.replace(b"\n", b"\r\n"), ignore)
    assert json.loads(bytes(message["result"])) == {"text": "a\nb", "list": [1, 2]}
    await channel.aclose()


async def test_bytes_that_are_no_utf8_are_replaced(children: Children) -> None:
    channel = children.channel("""
message = read()
write(b'{"jsonrpc":"2.0","id":1,"result":{"text":"\\xff\\xfe \\xc3\\xa9"}}\\n')
read()
""")
    await channel.open()
    message = await channel.exchange(1, request(1), ignore)
    assert bytes(message["result"]) == '{"text":"\ufffd\ufffd é"}'.encode()
    await channel.aclose()


async def test_noise_on_stdout_is_skipped(children: Children, caplog: pytest.LogCaptureFixture) -> None:
    channel = children.channel("""
write(b"Server version: 1.0\\n\\n[dotenv@17] injecting env\\n\\xff\\xfe\\n")
while (message := read()) is not None:
    write(b'npm warn deprecated\\r\\n\\n[1,2]\\n{"level":"info","msg":"hi"}\\n{"method":"GET","path":"/"}\\n')
    answer(message, message["params"])
""")
    session = Session(channel)
    await channel.open()
    assert await ask(channel, 1, n=1) == {"n": 1}
    assert await ask(channel, 2, n=2) == {"n": 2}
    assert channel.skipped == 14
    assert "connection team/tools" in caplog.text
    assert not session.messages
    await channel.aclose()


async def test_a_line_of_10_mib_arrives(children: Children) -> None:
    channel = children.channel("""
while (message := read()) is not None:
    answer(message, {"got": len(message["params"]["text"]), "text": "b" * 10 * 1024 * 1024})
""")
    await channel.open()
    before = time.process_time()
    result = await ask(channel, 1, text="a" * 10 * 1024 * 1024)
    spent = time.process_time() - before
    assert result["got"] == len(result["text"]) == 10 * 1024 * 1024
    # A join of what is there so far with each of the 160 chunks would move 800 MB and take many times this.
    assert spent < 3.0
    await channel.aclose()


@pytest.mark.parametrize("id_first", [True, False])
async def test_a_line_over_the_limit_fails_its_exchange_only(children: Children, id_first: bool) -> None:
    channel = children.channel(
        f"""
while (message := read()) is not None:
    parts = ['"id":%d' % message["id"], '"result":{{"text":"%s"}}' % ("x" * message["params"]["size"])]
    write(('{{"jsonrpc":"2.0",' + ",".join(parts if {id_first} else parts[::-1]) + "}}\\n").encode())
""",
        message_limit=100_000,
    )
    session = Session(channel)
    await channel.open()
    others = [asyncio.create_task(ask(channel, number, size=number)) for number in (1, 3)]
    with pytest.raises(ProtocolViolation, match=r"connection team/tools: .* limit of 100000"):
        await ask(channel, 2, size=3_000_000)
    assert await asyncio.gather(*others) == [{"text": "x"}, {"text": "xxx"}]
    assert channel.skipped == 0
    assert not session.losses
    await channel.aclose()


async def test_an_oversized_message_that_answers_nothing_is_skipped(children: Children) -> None:
    channel = children.channel(
        """
message = read()
write(b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x":"' + b"x" * 300_000 + b'"}}\\n')
answer(message, {})
read()
""",
        message_limit=100_000,
    )
    await channel.open()
    assert await ask(channel, 1) == {}
    assert channel.skipped == 1
    await channel.aclose()


async def test_a_flood_on_stderr_blocks_nothing(children: Children) -> None:
    channel = children.channel("""
message = read()
for _ in range(200):
    say("noise " * 10_000 + "\\n")
say("last words\\n")
answer(message, {})
read()
""")
    await channel.open()
    assert await ask(channel, 1) == {}
    await eventually(lambda: channel.stderr_tail.endswith("last words"))
    assert len(channel.stderr_tail) <= 4096
    await channel.aclose()


async def test_stderr_is_logged_at_debug(children: Children, caplog: pytest.LogCaptureFixture) -> None:
    channel = children.channel('say("hello from below\\n")\nread()', env={"TOKEN": "s3cret-token"})
    with caplog.at_level(logging.DEBUG, logger="mcp_connections"):
        await channel.open()
        await eventually(lambda: channel.stderr_tail)
        await channel.aclose()
    records = [record for record in caplog.records if "hello from below" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.DEBUG]
    assert "team/tools" in records[0].getMessage()


# what a child is started with


async def test_the_environment_is_an_allow_list(
    children: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MCP_CONNECTIONS_ADMIN_TOKEN", "the proxy's own secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("HOME", "/home/proxy")
    channel = children.channel(
        'answer(read(), {"env": dict(os.environ), "cwd": os.getcwd()})\nread()',
        env={"API_KEY": "configured", "HOME": "/home/backend"},
        working_dir=str(tmp_path),
    )
    await channel.open()
    result = await ask(channel, 1)
    await channel.aclose()
    environment = {name: value for name, value in result["env"].items() if name != "LC_CTYPE"}  # set by Python itself
    inherited = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP", "TZ", "USER"}
    assert set(environment) <= inherited | {"LC_TIME", "API_KEY", *children.mark} | {
        name for name in os.environ if name.startswith("LC_")
    }
    assert environment["API_KEY"] == "configured"
    assert environment["HOME"] == "/home/backend"
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["LC_TIME"] == "C"
    assert result["cwd"] == str(tmp_path)


def test_the_configured_environment_wins() -> None:
    inherited = {"PATH": "/bin", "SECRET": "x", "LC_ALL": "C", "SystemRoot": "C:"}
    assert child_environment({"PATH": "/opt"}, inherited) == {"PATH": "/opt", "LC_ALL": "C", "SystemRoot": "C:"}


async def test_the_command_is_looked_for_in_the_childs_path(tmp_path: Path, children: Children) -> None:
    script = tmp_path / "my-server"
    script.write_text('#!/bin/sh\nread line\necho \'{"jsonrpc":"2.0","id":1,"result":{}}\'\nread line\n')
    script.chmod(0o755)
    server = StdioServer(command=("my-server",), env=children.mark | {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    channel = StdioChannel(server, connection="a/b", connect_timeout=20.0)
    await channel.open()
    assert await ask(channel, 1) == {}
    await channel.aclose()


@pytest.mark.parametrize(
    ("command", "fields", "text"),
    [
        (("/no/such/bin", "--token", "s3cret"), {}, "'/no/such/bin' does not exist"),
        (("no-such-command",), {}, "'no-such-command' not found in the PATH of the child"),
        ((), {}, "command is empty"),
        (("/etc/passwd",), {}, "'/etc/passwd' is not executable"),
        (("/etc",), {}, "'/etc' is not executable"),
        (("./plain-data",), {}, "cannot be started: Exec format error"),
        (("./lost-interpreter",), {}, "the interpreter its first line names"),
        ((sys.executable,), {"working_dir": "/no/such/dir"}, "working directory '/no/such/dir' does not exist"),
        ((sys.executable, "a\0b"), {}, "cannot be started"),
        ((sys.executable,), {"env": {"A=B": "x"}}, "cannot be started"),
    ],
)
async def test_a_command_that_cannot_be_started_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    children: Children,
    command: tuple[str, ...],
    fields: dict[str, object],
    text: str,
) -> None:
    for name, content in (("plain-data", b"\x00\x01data"), ("lost-interpreter", b"#!/no/such/interpreter\n")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    server = StdioServer.model_validate({"command": command, **fields})
    channel = StdioChannel(server, connection="team/tools", connect_timeout=20.0)
    session = Session(channel)
    with pytest.raises(CommandNotFound) as caught:
        await channel.open()
    assert str(caught.value).startswith("connection team/tools: command")
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert not caught.value.executed
    assert channel.pid is None
    await channel.aclose()
    assert not session.losses


# how a child ends by itself


async def test_a_child_that_dies_fails_what_waits_with_code_and_stderr(children: Children) -> None:
    channel = children.channel(
        """
read()
read()
say("using s3cret-token\\nfatal: out of cheese\\n")
os._exit(3)
""",
        env={"TOKEN": "s3cret-token"},
    )
    session = Session(channel)
    await channel.open()
    faults = await asyncio.gather(ask(channel, 1), ask(channel, 2), return_exceptions=True)
    for fault in faults:
        assert isinstance(fault, Exited)
        assert "connection team/tools" in str(fault)
        assert "exited with code 3" in str(fault)
        assert "fatal: out of cheese" in str(fault)
        assert "s3cret" not in str(fault)
        assert fault.executed
    assert [type(fault) for fault in session.losses] == [Exited]
    with pytest.raises(Exited, match="exited with code 3") as caught:
        await ask(channel, 3)
    assert not caught.value.executed
    await channel.aclose()
    assert len(session.losses) == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("read(); os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
        ("read(); os._exit(127)", r"exited with code 127 \(a command that was not found\); it wrote nothing to stderr"),
        ("read(); os._exit(0)", "exited with code 0"),
    ],
)
async def test_how_the_child_ended_is_told(children: Children, code: str, text: str) -> None:
    channel = children.channel(code)
    await channel.open()
    with pytest.raises(Exited, match=text):
        await ask(channel, 1)
    await channel.aclose()


async def test_a_child_that_ends_while_idle_is_a_loss(children: Children) -> None:
    channel = children.channel('time.sleep(0.5); say("bye\\n")')
    session = Session(channel)
    await channel.open()
    await session.until(lambda s: s.losses)
    assert isinstance(session.losses[0], Exited)
    assert "bye" in str(session.losses[0])
    await channel.aclose()


@pytest.mark.parametrize("end", ["\\n", ""])
async def test_what_a_child_wrote_before_it_died_arrives(children: Children, end: str) -> None:
    channel = children.channel(f"""
message = read()
write(b'{{"jsonrpc":"2.0","id":1,"result":{{"text":"' + b"x" * 500_000 + b'"}}}}{end}')
os._exit(0)
""")
    session = Session(channel)
    await channel.open()
    assert len((await ask(channel, 1))["text"]) == 500_000
    await session.until(lambda s: s.losses)
    await channel.aclose()


@pytest.mark.parametrize("pipe", ["stdout", "stdin"])
async def test_a_child_that_closes_a_pipe_is_lost_and_ended(children: Children, pipe: str) -> None:
    channel = children.channel(f"""
read()
os.close(sys.{pipe}.fileno())
time.sleep(600)
""")
    session = Session(channel)
    await channel.open()
    with pytest.raises(Unreachable, match=f"closed its {pipe} without ending"):
        await ask(channel, 1)
    await session.until(lambda s: s.losses)
    await channel.aclose()


async def test_a_message_for_a_child_that_ends_is_not_executed(children: Children) -> None:
    channel = children.channel('os.close(0); time.sleep(0.2); say("gone\\n"); os._exit(9)')
    await channel.open()
    await eventually(lambda: channel._stdin is not None and channel._stdin.closed.done())  # noqa: SLF001
    with pytest.raises(Exited, match="code 9") as caught:
        await channel.send(notification("x"))
    assert not caught.value.executed
    await channel.aclose()


async def test_a_child_that_does_not_read_blocks_nobody_else(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf, well = children.channel("time.sleep(600)"), children.channel()
    monkeypatch.setattr(StdioChannel, "write_seconds", 0.5)
    await asyncio.gather(deaf.open(), well.open())
    stuck = asyncio.create_task(ask(deaf, 1, text="x" * 1_000_000))
    await asyncio.sleep(0)
    late = [asyncio.create_task(ask(deaf, number)) for number in range(2, 12)]
    for number in range(20):
        assert await ask(well, number, n=number) == {"n": number}
    results = await asyncio.gather(*late, return_exceptions=True)
    for fault in results:
        assert isinstance(fault, TimedOut)
        assert "does not read its stdin" in str(fault)
        assert not fault.executed
    assert not stuck.done()
    await asyncio.gather(deaf.aclose(), well.aclose())
    with pytest.raises(Unreachable):
        await stuck


async def test_a_slow_reader_gets_everything_in_order(children: Children) -> None:
    channel = children.channel("""
time.sleep(0.3)
seen = []
while (message := read()) is not None:
    seen.append(message["params"]["n"])
    if "id" in message:
        answer(message, seen)
""")
    await channel.open()
    sends = [asyncio.create_task(channel.send(notification("x", n=n, pad="p" * 50_000))) for n in range(40)]
    await asyncio.sleep(0)
    result = await ask(channel, 1, n=40)
    await asyncio.gather(*sends)
    assert result == list(range(41))
    await channel.aclose()


async def test_a_cancelled_wait_for_the_pipe_writes_nothing(children: Children, tmp_path: Path) -> None:
    go = tmp_path / "go"
    channel = children.channel(f"""
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
while (message := read()) is not None:
    if "id" in message:
        answer(message, sorted(message["params"]))
    else:
        say(message["method"])
""")
    await channel.open()
    first = asyncio.create_task(ask(channel, 1, big="x" * 1_000_000))
    await asyncio.sleep(0)
    second = asyncio.create_task(channel.send(notification("never-sent")))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.wait({second})
    assert second.cancelled()
    go.touch()
    assert await first == ["big"]
    assert await ask(channel, 2, a=1) == ["a"]
    assert "never-sent" not in channel.stderr_tail
    await channel.aclose()


async def test_a_cancelled_exchange_leaves_the_channel_usable(children: Children, tmp_path: Path) -> None:
    go = tmp_path / "go"
    channel = children.channel(f"""
first = read()
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
answer(first, "late")
while (message := read()) is not None:
    answer(message, message["params"])
""")
    session = Session(channel)
    await channel.open()
    exchange = asyncio.create_task(ask(channel, 1))
    await asyncio.sleep(0.05)
    exchange.cancel()
    await asyncio.wait({exchange})
    go.touch()
    assert await ask(channel, 2, n=2) == {"n": 2}
    assert not session.messages
    assert not session.losses
    await channel.aclose()


async def test_exchanges_cancelled_around_their_answer(children: Children) -> None:
    channel = children.channel()
    session = Session(channel)
    await channel.open()
    for number in range(200):
        exchange = asyncio.create_task(ask(channel, number, n=number))
        await asyncio.sleep(number % 20 * 0.00002)
        exchange.cancel()
        await asyncio.wait({exchange})
    assert not channel._pending  # noqa: SLF001
    assert await ask(channel, 1000, n=1) == {"n": 1}
    assert not session.losses
    await channel.aclose()
