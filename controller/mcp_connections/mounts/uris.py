"""Public URIs: a reversible mapping of a backend's resource URIs under its connection's prefix.

Two backends may both serve ``file:///a``, and a client must be able to read back every URI it sees, so each
URI carries its connection's prefix. Four forms, chosen so that what a host does with a URI's scheme still works:

=============================  ====================================  =================================
the backend's URI              the public URI                        why
=============================  ====================================  =================================
``ui://x/y``                   ``ui://{prefix}/x/y``                 MCP Apps hosts look for ``ui://``
``file:///x/y``                ``file:///{prefix}/x/y``              clients that parse URLs take ``//`` in a path
                                                                     for ``/``, and write hosts in lower case
``urn:isbn:1``                 ``urn:{prefix}:isbn:1``               an opaque URI stays one
``https://x/y``, ``foo/bar``,  ``mcp-connection:{prefix}:https://…`` nobody fetches a rewritten URL from
``{scheme}://x``                                                     the web, or guesses a scheme
=============================  ====================================  =================================

Nothing is normalised: beside the inserted prefix every character stays as the backend wrote it, so the same
functions map URI templates (RFC 6570): the prefix holds no brace, and expressions are never cut.
"""

from __future__ import annotations

import re

WRAPPER_SCHEME = "mcp-connection"

_WRAPPED_SCHEMES = frozenset({"http", "https", WRAPPER_SCHEME})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._-]+")


def public_uri(prefix: str, uri: str) -> str:
    """The URI or URI template under which clients see ``uri`` of the connection with ``prefix``.

    ``prefix`` consists of ``[A-Za-z0-9._-]``; under the empty prefix a URI stays as it is. Different arguments
    with non-empty prefixes give different results.
    """
    if not prefix:
        return uri
    scheme, colon, rest = uri.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme) or scheme.lower() in _WRAPPED_SCHEMES:
        return f"{WRAPPER_SCHEME}:{prefix}:{uri}"
    if rest.startswith("///"):
        return f"{scheme}:///{prefix}/{rest[3:]}"
    if rest.startswith("//"):
        return f"{scheme}://{prefix}/{rest[2:]}"
    return f"{scheme}:{prefix}:{rest}"


def split_public_uri(uri: str) -> tuple[str, str] | None:
    """The prefix and the backend's URI behind a public URI; the inverse of ``public_uri`` with a non-empty prefix.

    None where ``uri`` has none of the four forms. A URI that was never mapped may have one of them by chance
    (``ui://host/x``), so a caller goes on only if the prefix is that of a connection it knows.

    More is understood than ``public_uri`` writes: a template such as ``x:{+path}`` is mapped to ``x:{prefix}:{+path}``
    before anyone knows that its expansion is ``x://host``, ``x://{+path}`` may turn out to have no host, and wrapped
    templates may expand to any URI. So
    ``split_public_uri(expand(public_uri(prefix, template))) == (prefix, expand(template))`` for every template.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        return None
    if scheme == WRAPPER_SCHEME:
        prefix, mark, original = rest.partition(":")
    elif scheme.lower() in _WRAPPED_SCHEMES:
        return None
    elif rest.startswith("///"):
        prefix, mark, tail = rest[3:].partition("/")
        original = f"{scheme}:///{tail}"
    elif rest.startswith("//"):
        prefix, mark, tail = rest[2:].partition("/")
        original = f"{scheme}://{tail}"
    else:
        prefix, mark, tail = rest.partition(":")
        original = f"{scheme}:{tail}"
    return (prefix, original) if mark and _PREFIX.fullmatch(prefix) else None
