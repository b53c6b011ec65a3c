"""DNS rebinding protection: an endpoint on loopback answers to loopback names only.

A web page cannot forge Host, so a page whose name was re-pointed at 127.0.0.1 is refused (2025-11-25, basic/transports,
Security Warning). Elsewhere names are the business of whoever publishes the address.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostGuard:
    """Judges the Host header of requests to an endpoint bound to ``bind``."""

    def __init__(self, bind: str, allowed: Iterable[str] = ()) -> None:
        self._open = not is_loopback(bind)
        self._allowed = {name.lower() for name in allowed}
        # Clients send the same few values again and again, and parsing an address costs a tenth of a relayed call.
        self._judge = functools.lru_cache(maxsize=256)(self._judge_host)

    def allows(self, host: bytes) -> bool:
        """Whether a request with this Host header may be served."""
        return self._open or self._judge(host)

    def _judge_host(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1")).lower()
        return is_loopback(name) or name in self._allowed

    def explain(self, host: bytes) -> str:
        """Why it may not."""
        return (
            f"Host {host.decode('latin-1')!r} is not a name of this machine, and the endpoint listens on loopback only;"
            " use 127.0.0.1 or localhost"
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
