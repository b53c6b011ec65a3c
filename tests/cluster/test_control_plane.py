"""The control plane of the tests is a real one, is ours alone, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.binaries import find_or_prepare
from tests.cluster.control_plane import ControlPlane
from tests.cluster.version import VERSION


def test_serves_the_pinned_version(bare_control_plane: ControlPlane) -> None:
    answer = json.loads(bare_control_plane.kubectl("get", "--raw", "/version").stdout)

    assert answer["gitVersion"].rpartition(".")[0] == VERSION.rpartition(".")[0]


def test_keeps_objects_in_a_fresh_namespace(bare_control_plane: ControlPlane, namespace: str) -> None:
    bare_control_plane.kubectl("create", "configmap", "kept", "--from-literal=a=b", "-n", namespace)

    kept = json.loads(bare_control_plane.kubectl("get", "configmap", "kept", "-n", namespace, "-o", "json").stdout)

    assert kept["data"] == {"a": "b"}


def test_rbac_holds_for_service_account_tokens(bare_control_plane: ControlPlane, namespace: str) -> None:
    bare_control_plane.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    token = bare_control_plane.kubectl("create", "token", "nobody", "-n", namespace).stdout.strip()
    kubeconfig = bare_control_plane.kubeconfig_for(token)

    refused = bare_control_plane.kubectl(
        "--kubeconfig", str(kubeconfig), "get", "secrets", "-n", namespace, check=False
    )

    assert refused.returncode != 0
    assert f"system:serviceaccount:{namespace}:nobody" in refused.stderr


def test_a_failing_command_shows_its_reason(bare_control_plane: ControlPlane) -> None:
    with pytest.raises(AssertionError, match="NotFound"):
        bare_control_plane.kubectl("get", "configmap", "absent", "-n", "default")


def test_stop_waits_for_both_servers(tmp_path: Path) -> None:
    plane = ControlPlane(find_or_prepare(), tmp_path)
    plane.start()
    processes = dict(plane._processes)  # noqa: SLF001

    plane.stop()

    assert set(processes) == {"etcd", "kube-apiserver"}
    assert all(process.returncode is not None for process in processes.values())


def test_servers_die_with_a_killed_test_run(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from tests.cluster.binaries import find_or_prepare\n"
        "from tests.cluster.control_plane import ControlPlane\n"
        "plane = ControlPlane(find_or_prepare(), pathlib.Path(sys.argv[1]))\n"
        "plane.start()\n"
        "print(*(p.pid for p in plane._processes.values()), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        timeout=180,
        check=False,
    )

    pids = [int(pid) for pid in killed.stdout.split()]
    assert killed.returncode == -9
    assert len(pids) == 2
    assert _all_gone(pids)


def _all_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 60
    while alive := [pid for pid in pids if _alive(pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1 * len(alive))
    return True


def _alive(pid: int) -> bool:
    """A process that has ended and that nobody has waited for yet does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
