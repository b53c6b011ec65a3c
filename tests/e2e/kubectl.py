"""kubectl against the cluster that the end-to-end tests were given."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SECONDS = 300.0
"""For one command, and for what a node has to do: seconds on an idle machine, minutes on one that is busy."""
LOOK = 0.25

Object = dict[str, Any]


class Kubectl:
    """Runs kubectl as cluster administrator, in one namespace if told so."""

    def __init__(self, program: Path, cache: Path, namespace: str | None = None) -> None:
        self._program = program
        self._cache = cache
        self.namespace = namespace

    def within(self, namespace: str) -> Kubectl:
        """The same in ``namespace``."""
        return Kubectl(self._program, self._cache, namespace)

    def command(self, *words: str) -> list[str]:
        """The command line."""
        return [str(self._program), *(["--namespace", self.namespace] if self.namespace else []), *words]

    def environment(self) -> dict[str, str]:
        """Its environment: the tests' own cache of which kinds there are."""
        return os.environ | {"KUBECACHEDIR": str(self._cache)}

    def run(self, *words: str, stdin: str | None = None, check: bool = True, seconds: float = SECONDS) -> str:
        """Its standard output, and its errors too without ``check``; with it a failure is an AssertionError."""
        done = subprocess.run(
            self.command(*words),
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if not check:
            return done.stdout + done.stderr
        assert done.returncode == 0, f"kubectl {' '.join(words)}: exit {done.returncode}\n{done.stderr}{done.stdout}"
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """kubectl apply."""
        self.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, kind: str, name: str) -> Object:
        """An object as it is now."""
        found: Object = json.loads(self.run("get", kind, name, "--output=json"))
        return found

    def items(self, kind: str, *words: str) -> list[Object]:
        """The objects of a kind as they are now."""
        found: list[Object] = json.loads(self.run("get", kind, *words, "--output=json"))["items"]
        return found

    def wait(self, condition: str, *objects: str) -> None:
        """kubectl wait --for=``condition``."""
        self.run("wait", f"--for={condition}", f"--timeout={SECONDS:.0f}s", *objects, seconds=SECONDS + 60)

    def until(self, kind: str, name: str, holds: Callable[[Object], bool], *, seconds: float = SECONDS) -> Object:
        """Wait until ``holds`` of an object."""
        deadline = time.monotonic() + seconds
        while not holds(found := self.get(kind, name)):
            assert time.monotonic() < deadline, f"{kind} {name} did not come to it; {json.dumps(found.get('status'))}"
            time.sleep(LOOK)
        return found
