"""Plays the cluster's DNS and kube-proxy for the Python of a test's proxies: names of Services lead to ports of this
machine, as the test's kubelet writes them into a file. Python imports this module by itself when it starts."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path
from typing import Any

import uvloop

SERVICES = Path(os.environ["TEST_SERVICES"])


def looked_up(host: str, port: Any) -> int:
    """The port of this machine that stands for a Service's."""
    ports = json.loads(SERVICES.read_text()).get(host)
    if ports is None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if str(port) not in ports:
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"no pod is ready behind {host}")
    return int(ports[str(port)])


class Loop(uvloop.Loop):
    """Looks up ``*.svc`` in the file, and everything else where it always is."""

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if isinstance(host, str) and host.endswith(".svc"):
            host, port = "127.0.0.1", looked_up(host, port)
        return await super().create_connection(protocol_factory, host, port, **options)


uvloop.Loop = Loop  # type: ignore[misc]
