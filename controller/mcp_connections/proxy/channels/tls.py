"""TLS towards backends. A context is expensive to make (20 ms: it parses every root certificate), so the one of the
system's trust is made once, and none at all where no backend uses TLS."""

from __future__ import annotations

import functools
import ssl

from mcp_connections.mounts.spec import HttpServer


@functools.cache
def _system_trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def client_context(server: HttpServer) -> ssl.SSLContext | None:
    """The context for a backend; None for a plain-text URL. Raises ValueError where the CA bundle is no PEM."""
    if not server.url.startswith(("https:", "wss:")):
        return None
    if server.ca_bundle is None:
        return _system_trust()
    try:
        return ssl.create_default_context(cadata=server.ca_bundle)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the CA bundle holds no usable PEM certificate ({error})") from None
