"""What a person is told when a machine cannot make a cluster, and how processes are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.kind.commands import run, succeeds
from tests.cluster.kind.debian import require
from tests.cluster.kind.leftovers import command_lines, end
from tests.cluster.kind.private_dockerd import RUNTIME
from tests.cluster.version import Unavailable

HERE = Path(__file__).parents[3]


def test_a_failed_command_shows_its_words() -> None:
    with pytest.raises(Unavailable, match=r"exit code 3\nfirst\nthen"):
        run(["sh", "-c", "echo first; echo then >&2; exit 3"], seconds=60)
    assert not succeeds(["false"])


def test_a_command_that_hangs_is_given_up() -> None:
    with pytest.raises(Unavailable, match="took longer than 0 s"):
        run(["sleep", "60"], seconds=0.2)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match="there is no no-such-program on the PATH"):
        run(["no-such-program"], seconds=10)


def test_where_nothing_can_be_installed_the_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Unavailable, match=r"no-such-program.*apt-get install --no-install-recommends its-package"):
        require({"no-such-program": "its-package"}, lambda _: None)


def test_processes_are_seen_and_ended() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        deadline = time.monotonic() + 60
        while (process.pid, ["sleep", "600"]) not in [(pid, line[:2]) for pid, line in command_lines()]:
            assert time.monotonic() < deadline  # a process that has just started may have no command line yet

        end([process.pid], signal.SIGTERM, 60)

        assert process.wait(60) == -signal.SIGTERM


def test_a_process_that_stays_is_an_error() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        with pytest.raises(Unavailable, match=f"{process.pid}.* did not end within 0 s of SIGCONT"):
            end([process.pid], signal.SIGCONT, 0.2)
        process.kill()


def test_runc_is_not_asked_for_a_right_that_the_host_lacks(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    specification = tmp_path / "bundle" / "config.json"
    specification.write_text(
        '{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE","CAP_CHOWN"]}'
    )
    (tmp_path / "runc").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "runc").chmod(0o755)

    said = run(
        [RUNTIME, "--root", "/x", "create", "--bundle", tmp_path / "bundle", "container"],
        seconds=60,
        environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )

    assert specification.read_text() == '{"bounding":["CAP_CHOWN"],"effective":["CAP_CHOWN"]}'
    assert said == f"--root /x create --bundle {tmp_path}/bundle container\n"


def test_without_a_command_it_explains_itself() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.cluster.kind"], cwd=HERE, capture_output=True, text=True, timeout=60, check=False
    )

    assert told.returncode == 2
    assert "KEEP=1" in told.stderr
