"""stdio: the end of a child and of all it started. A fixture asserts after every test that nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_connections.proxy.channels import child_process
from mcp_connections.proxy.channels.channel import Exited, Unreachable
from mcp_connections.proxy.channels.child_pipes import PipeEnd
from mcp_connections.proxy.channels.stdio import StdioChannel
from tests.channels.children import Children, open_files
from tests.channels.wire import Session, ask, eventually

IMMORTAL = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
kid = grandchild()
while (message := read()) is not None:
    answer(message, [os.getpid(), kid.pid])
time.sleep(600)
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter patience with children that do not end, where how long it is does not matter."""
    monkeypatch.setattr(child_process, "EOF_SECONDS", 0.3)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return True
    return state == b"Z"


async def test_a_polite_child_ends_with_its_stdin(children: Children, tmp_path: Path) -> None:
    channel = children.channel(f"""
def told(*_):
    open({str(tmp_path / "sigterm")!r}, "w").close()
    sys.exit(1)
signal.signal(signal.SIGTERM, told)
while (message := read()) is not None:
    answer(message, None)
time.sleep(0.2)
open({str(tmp_path / "eof")!r}, "w").close()
""")
    session = Session(channel)
    await channel.open()
    await ask(channel, 1)
    await channel.aclose()
    assert (tmp_path / "eof").exists()
    assert not (tmp_path / "sigterm").exists()
    assert not session.losses


@pytest.mark.usefixtures("impatient")
async def test_a_child_that_ignores_the_end_of_stdin_gets_sigterm(children: Children, tmp_path: Path) -> None:
    channel = children.channel(f"""
def told(*_):
    open({str(tmp_path / "sigterm")!r}, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
answer(read(), None)
time.sleep(600)
""")
    await channel.open()
    await ask(channel, 1)
    await channel.aclose()
    assert (tmp_path / "sigterm").exists()


async def test_a_child_and_grandchild_that_ignore_everything_are_gone(children: Children) -> None:
    # With the real times: this is what a reload waits for.
    channel = children.channel(IMMORTAL)
    session = Session(channel)
    await channel.open()
    pids = await ask(channel, 1)
    assert sorted(pids) == sorted(children.alive())
    await channel.aclose()
    assert all(gone(pid) for pid in pids)
    assert not session.losses


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("ending", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
async def test_grandchildren_of_a_dead_child_are_ended(children: Children, ending: str) -> None:
    # The grandchild holds all three pipes open and ignores SIGTERM.
    channel = children.channel(f"""
kid = grandchild(stdin=sys.stdin, stderr=sys.stderr, pass_fds=(1,))
answer(read(), kid.pid)
read()
{ending}
""")
    session = Session(channel)
    await channel.open()
    pid = await ask(channel, 1)
    with pytest.raises(Exited):
        await ask(channel, 2)
    await channel.aclose()
    assert gone(pid)
    assert len(session.losses) == 1


@pytest.mark.usefixtures("impatient")
async def test_grandchildren_of_a_child_that_ends_politely_are_ended(children: Children) -> None:
    channel = children.channel("kid = grandchild()\nanswer(read(), kid.pid)\nread()")
    await channel.open()
    pid = await ask(channel, 1)
    await channel.aclose()
    assert gone(pid)


@pytest.mark.usefixtures("impatient")
async def test_a_lost_channel_ends_its_processes_without_being_closed(children: Children) -> None:
    channel = children.channel("kid = grandchild()\nanswer(read(), kid.pid)\nos.close(1)\ntime.sleep(600)")
    session = Session(channel)
    await channel.open()
    await ask(channel, 1)
    await session.until(lambda s: s.losses)
    await eventually(lambda: not children.alive())
    await channel.aclose()


@pytest.mark.usefixtures("impatient")
async def test_a_child_that_is_stopped_is_ended(children: Children) -> None:
    channel = children.channel()
    await channel.open()
    assert channel.pid is not None
    os.kill(channel.pid, signal.SIGSTOP)
    await channel.aclose()


@pytest.mark.usefixtures("impatient")
async def test_closing_twice_and_at_the_same_time(children: Children) -> None:
    channel = children.channel(IMMORTAL)
    await channel.open()
    await ask(channel, 1)
    await asyncio.gather(channel.aclose(), channel.aclose())
    assert not children.alive()
    await channel.aclose()


@pytest.mark.usefixtures("impatient")
async def test_a_close_that_is_cancelled_goes_on_and_can_be_awaited(children: Children) -> None:
    channel = children.channel(IMMORTAL)
    await channel.open()
    pids = await ask(channel, 1)
    closing = asyncio.create_task(channel.aclose())
    await asyncio.sleep(0.05)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    assert not all(gone(pid) for pid in pids)
    await channel.aclose()
    assert all(gone(pid) for pid in pids)


async def test_calls_in_flight_fail_when_the_channel_is_closed(children: Children) -> None:
    channel = children.channel("answer(read(), None)\nread()\nread()")
    await channel.open()
    await ask(channel, 1)
    exchange = asyncio.create_task(ask(channel, 2))
    await asyncio.sleep(0.05)
    await channel.aclose()
    with pytest.raises(Unreachable, match="the proxy closed this session"):
        await exchange


async def warmed_up(children: Children) -> int:
    """How many files are open once the event loop has opened what it keeps."""
    channel = children.channel()
    await channel.open()
    await channel.aclose()
    return open_files()


@pytest.mark.parametrize("how", ["cancel", "close", "both"])
async def test_an_attempt_that_ends_at_any_point_leaves_nothing(children: Children, how: str) -> None:
    files = await warmed_up(children)
    for turns in range(8):
        channel = children.channel()
        opening = asyncio.create_task(channel.open())
        for _ in range(turns):
            await asyncio.sleep(0)
        if how != "close":
            opening.cancel()
        if how != "cancel":
            await channel.aclose()
        await asyncio.gather(opening, return_exceptions=True)
        await channel.aclose()
        assert not children.alive()
    assert open_files() == files


async def test_channels_leave_no_file_open(children: Children) -> None:
    files = await warmed_up(children)
    for _ in range(10):
        channel = children.channel()
        await channel.open()
        await ask(channel, 1)
        await channel.aclose()
    for _ in range(5):
        channel = children.channel("read(); os._exit(1)")
        await channel.open()
        with pytest.raises(Exited):
            await ask(channel, 1)
        await channel.aclose()
    assert open_files() == files


@pytest.mark.usefixtures("impatient")
async def test_without_a_pidfd_the_exit_is_noticed_too(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    crashing, immortal = children.channel("read(); os._exit(5)"), children.channel(IMMORTAL)
    await asyncio.gather(crashing.open(), immortal.open())
    with pytest.raises(Exited, match="code 5"):
        await ask(crashing, 1)
    await ask(immortal, 1)
    await asyncio.gather(crashing.aclose(), immortal.aclose())


OWNER = """
import asyncio, ctypes, os, sys
from mcp_connections.mounts.spec import StdioServer
from mcp_connections.proxy.channels.stdio import StdioChannel

async def main(ending, server):
    channel = StdioChannel(StdioServer.model_validate_json(server), connection="a/b", connect_timeout=20.0)
    await channel.open()
    await channel.exchange(1, b'{"jsonrpc":"2.0","id":1,"method":"x"}', lambda message: None)
    if ending == "killed":
        os.kill(os.getpid(), 9)
    elif ending == "torn down":
        closing = asyncio.create_task(channel.aclose())
        await asyncio.sleep(0.1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait({closing})
        os._exit(0)
    elif ending == "closed":
        await channel.aclose()
        try:
            print("left:", os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            print("none left")

if sys.argv[1] == "closed":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become children, as they do of PID 1
loop = asyncio.new_event_loop()
loop.run_until_complete(main(*sys.argv[1:]))
"""


def run_owner(children: Children, backend: str, ending: str) -> str:
    """Run a process that owns a channel, and ends as told; returns what it printed."""
    command = [sys.executable, "-W", "ignore", "-c", OWNER, ending, children.server(backend).model_dump_json()]
    source = str(Path(child_process.__file__).parents[3])
    owner = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": source}, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    return owner.stdout


async def test_a_proxy_that_exits_leaves_no_child(children: Children) -> None:
    run_owner(children, IMMORTAL, "exits")
    await eventually(lambda: not children.alive())


async def test_a_proxy_whose_loop_is_torn_down_leaves_no_child(children: Children) -> None:
    run_owner(children, IMMORTAL, "torn down")
    await eventually(lambda: not children.alive())


async def test_a_proxy_that_is_killed_leaves_no_child_that_reads_its_stdin(children: Children) -> None:
    run_owner(children, "while (message := read()) is not None: answer(message, None)", "killed")
    await eventually(lambda: not children.alive())


async def test_orphans_of_the_group_are_reaped_where_the_proxy_is_pid_1(children: Children) -> None:
    assert run_owner(children, IMMORTAL, "closed") == "none left\n"


async def test_writers_that_wait_are_told_when_the_channel_is_closed(children: Children) -> None:
    channel = children.channel("time.sleep(0.5)")
    await channel.open()
    filling = asyncio.create_task(ask(channel, 1, text="x" * 1_000_000))
    await asyncio.sleep(0)
    late = [asyncio.create_task(ask(channel, number)) for number in (2, 3)]
    await asyncio.sleep(0.05)
    await channel.aclose()
    outcomes = await asyncio.gather(filling, *late, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unreachable] * 3
    assert [outcome.executed for outcome in outcomes if isinstance(outcome, Unreachable)] == [True, False, False]


async def test_no_exchange_hangs_whenever_the_child_dies(children: Children) -> None:
    channels = [children.channel(f"read()\ntime.sleep({moment * 0.003})\nos._exit(7)") for moment in range(8)]
    await asyncio.gather(*(channel.open() for channel in channels))

    async def use(channel: StdioChannel) -> None:
        for number in range(1, 1000):
            exchange = asyncio.create_task(ask(channel, number, "x"))
            await asyncio.sleep(0.001)
            try:
                await channel.send(b'{"jsonrpc":"2.0","method":"x"}')
                if number == 20:
                    await exchange
            finally:
                exchange.cancel()
                await asyncio.gather(exchange, return_exceptions=True)

    for use_of_one in [asyncio.create_task(use(channel)) for channel in channels]:
        with pytest.raises(Exited, match="code 7"):
            await use_of_one
    await asyncio.gather(*(channel.aclose() for channel in channels))


def test_a_pipe_end_never_closes_what_took_its_number(tmp_path: Path) -> None:
    read, write = os.pipe()
    end = PipeEnd(read)
    os.close(read)
    with (tmp_path / "other").open("w") as other:
        os.dup2(other.fileno(), read)
        end.close()
        assert os.fstat(read).st_ino == os.fstat(other.fileno()).st_ino
        if other.fileno() != read:
            os.close(read)
    end = PipeEnd(write)
    end.close()
    end.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)
