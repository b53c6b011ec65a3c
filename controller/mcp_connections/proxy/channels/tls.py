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
    return context_for(server.url, server.ca_bundle)


def context_for(url: str, ca_bundle: str | None) -> ssl.SSLContext | None:
    """The context for a URL: trust in ``ca_bundle``, or the system's without one. Raises ValueError likewise."""
    if not url.lower().startswith(("https:", "wss:")):
        return None
    if ca_bundle is None:
        return _system_trust()
    try:
        return ssl.create_default_context(cadata=ca_bundle)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the CA bundle holds no usable PEM certificate ({error})") from None
