"""The image asks for nothing: no root, no capability, no file system to write to, no shell."""

from __future__ import annotations

import json

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import output_of, pod

ASK = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
try:
    open("/written", "w")
    writable = True
except OSError as error:
    writable = error.strerror
print(json.dumps({
    "uid": os.getuid(),
    "gid": os.getgid(),
    "capabilities": [int(status[kind], 16) for kind in ("CapEff", "CapPrm", "CapBnd")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "writable": writable,
}))
"""


@pytest.mark.parametrize("command", ["--help", "--version", "serve --help", "operator --help"])
def test_its_entry_point_is_the_command_line(kubectl: Kubectl, image: str, command: str) -> None:
    assert "mcp-connections" in output_of(kubectl, {"image": image, "args": command.split()})


def test_a_process_in_it_has_no_rights(kubectl: Kubectl, image: str) -> None:
    found = json.loads(output_of(kubectl, {"image": image, "command": ["python3", "-c", ASK]}))

    assert found == {
        "uid": 65532,
        "gid": 65532,
        "capabilities": [0, 0, 0],
        "no_new_privileges": "1",
        "seccomp": "2",
        "writable": "Read-only file system",
    }


def test_the_namespace_would_refuse_a_pod_that_asks_for_more(kubectl: Kubectl, image: str) -> None:
    """What the other tests rest on."""
    greedy = pod("greedy", {"image": image, "securityContext": {"privileged": True}})

    with pytest.raises(AssertionError, match="violates PodSecurity"):
        kubectl.apply(greedy)
