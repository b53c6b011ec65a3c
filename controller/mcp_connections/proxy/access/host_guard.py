"""Which names the endpoint answers to: protection against DNS rebinding (MCP 2025-11-25, basic/transports).

A web page cannot forge Host, so a page whose own name was re-pointed at this address is refused. On loopback only
loopback names are served unless others are allowed; elsewhere any name is, unless some are listed.

Origin, which browsers alone send, is judged where names are listed. Without a list a page of another origin gets no
further either: it may not send ``application/json`` without asking first, and is given no leave; so the header alone
is no reason to refuse a client that is no browser and was told to send one.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Name(NamedTuple):
    """One allowed name: ``port`` None is any port, a leading ``*.`` any number of labels."""

    host: str
    port: str | None

    def matches(self, host: str, port: str | None) -> bool:
        if self.port is not None and self.port != port:
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


class HostGuard:
    """Judges the Host and Origin headers of requests to an endpoint bound to ``bind``."""

    def __init__(self, bind: str, allowed: Iterable[str] = ()) -> None:
        self._local = is_loopback(bind)
        self._allowed = [_name(each) for each in allowed]
        # Clients send the same few values again and again, and parsing an address costs a tenth of a relayed call.
        self._judge_host = functools.lru_cache(maxsize=256)(self._allows_name)
        self._judge_origin = functools.lru_cache(maxsize=256)(self._allows_origin_of)

    def allows(self, host: bytes) -> bool:
        """Whether a request with this Host header may be served."""
        return (not self._local and not self._allowed) or self._judge_host(host.decode("latin-1"))

    def allows_origin(self, origin: bytes | None) -> bool:
        """Whether a request with this Origin header may be served."""
        if origin is None or not self._allowed:
            return True
        return self._judge_origin(origin.decode("latin-1"))

    def _allows_name(self, name: str) -> bool:
        host, port = _split(name)
        if is_loopback(host) and (self._local or not self._allowed):
            return True
        return any(each.matches(host, port) for each in self._allowed)

    def _allows_origin_of(self, origin: str) -> bool:
        try:
            return self._allows_name(urlsplit(origin).netloc)
        except ValueError:
            return False

    def explain(self, host: bytes) -> str:
        """Why a Host header is refused."""
        shown = host.decode("latin-1")
        if self._allowed:
            return f"Host {shown!r} is not among the allowed hosts of this proxy (spec.allowedHosts of its McpProxy)"
        return (
            f"Host {shown!r} is not a name of this machine, and the endpoint listens on loopback only; use 127.0.0.1"
            " or localhost, or list the name in spec.allowedHosts of the McpProxy"
        )


def _name(text: str) -> _Name:
    host, port = _split(text)
    return _Name(host, None if port == "*" else port)


def _split(name: str) -> tuple[str, str | None]:
    """Host, in lower case and without brackets, and port."""
    name = name.lower()
    if name.startswith("["):
        host, _, rest = name[1:].partition("]")
        return host, rest.removeprefix(":") or None
    host, colon, port = name.rpartition(":")
    return (host, port) if colon else (name, None)
