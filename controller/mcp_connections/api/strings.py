"""The kinds of strings that fields hold, each with its bound and its reason to refuse.

Every string has a maximum length: without it the API server cannot bound what a CEL rule may cost.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from mcp_connections.api.rules import Rule, matching

_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_PORT = r"(:(0{0,4}[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
_REST = r'([/?][!-"$-~]*)?'
"""Path and query: printable ASCII but for #."""

OWN_HEADERS = (
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)
"""Headers that belong to HTTP framing or to MCP's transports: the proxy sets them and no manifest may. Lower case."""

NEVER_FORWARDED = (
    "authorization",
    "connection",
    "cookie",
    "dpop",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "last-event-id",
    "origin",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
)
"""Headers of a client that no manifest may have passed on: its credentials for this endpoint, which are never a
backend's (MCP, basic/authorization, Token Passthrough); what says where a request comes from; what belongs to one hop
(RFC 9110, section 7.6.1); and what the proxy sets itself. Lower case."""

NEVER_FORWARDED_PREFIXES = ("accept", "content-", "mcp-", "proxy-", "sec-", "x-forwarded-", "x-mcp-connections-")
"""The same, for families of headers."""


def _url(schemes: str, example: str) -> Rule:
    first, second = schemes, f"{schemes}s"
    return matching(
        rf"^{schemes}s?://{_HOST}{_PORT}{_REST}$",
        f"must be an absolute {first}:// or {second}:// URL without credentials or fragment, such as {example}",
    )


HttpUrl = Annotated[str, StringConstraints(max_length=2048), _url("http", "https://host.example/mcp")]
"""An http or https URL. Credentials belong in ``auth`` or a header from a Secret, where nobody can read them."""

WebSocketUrl = Annotated[str, StringConstraints(max_length=2048), _url("ws", "wss://host.example/mcp")]

ObjectName = Annotated[
    str,
    StringConstraints(max_length=253),
    matching(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "must be an object name: lower case letters, digits, - and ., starting and ending with a letter or digit",
    ),
]
"""A DNS-1123 subdomain, the form of almost every object name in Kubernetes."""

NamespaceName = Annotated[
    str,
    StringConstraints(max_length=63),
    matching(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "must be a namespace: lower case letters, digits and -, starting and ending with a letter or digit",
    ),
]
"""A DNS-1123 label."""

DataKey = Annotated[
    str,
    StringConstraints(max_length=253),
    matching(r"^[-._a-zA-Z0-9]+$", "must be a key of a Secret or ConfigMap: letters, digits, -, _ and ."),
]

HeaderName = Annotated[
    str,
    StringConstraints(max_length=128),
    matching(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "must be an HTTP header name (RFC 9110 token)"),
]

ForwardedHeaderName = Annotated[
    HeaderName,
    Rule(
        cel=(
            f"!(self.lowerAscii() in {list(NEVER_FORWARDED)!r}) && "
            f"!{list(NEVER_FORWARDED_PREFIXES)!r}.exists(prefix, self.lowerAscii().startsWith(prefix))"
        ),
        message=(
            "must not be a header that is never passed on: credentials and cookies of clients, Host, Origin, "
            "Forwarded, X-Forwarded-*, Sec-*, Accept*, Content-*, Mcp-*, Proxy-*, those of one hop, and those that "
            "the proxy sets itself"
        ),
        holds=lambda name: (
            name.lower() not in NEVER_FORWARDED and not name.lower().startswith(NEVER_FORWARDED_PREFIXES)
        ),
    ),
]
"""A header of a client's request that may be passed on to a backend."""

HeaderValue = Annotated[
    str,
    StringConstraints(max_length=8192),
    Rule(
        cel=r"!self.matches(r'[\x00-\x08\x0a-\x1f\x7f]')",
        message="must not hold line breaks or other control characters",
        holds=lambda text: all(char == "\t" or (char >= " " and char != "\x7f") for char in text),
    ),
]

EnvName = Annotated[
    str,
    StringConstraints(max_length=253),
    matching(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", "must be the name of an environment variable"),
]

_NO_NUL = Rule(
    cel=r"!self.matches(r'\x00')",
    message="must not hold a NUL character",
    holds=lambda text: "\0" not in text,
)

EnvValue = Annotated[str, StringConstraints(max_length=32768), _NO_NUL]

Argument = Annotated[str, StringConstraints(max_length=4096), _NO_NUL]

Prefix = Annotated[
    str,
    StringConstraints(max_length=64),
    matching(
        r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?)?$",
        "must be empty or 1 to 64 letters, digits, ., _ and -, starting and ending with a letter or digit",
    ),
]

Separator = Annotated[
    str,
    StringConstraints(max_length=4),
    matching(r"^[_.:/-]{1,4}$", "must be 1 to 4 of the characters _ . : / and -"),
]

ToolName = Annotated[
    str,
    StringConstraints(max_length=128),
    matching(r"^[A-Za-z0-9_.-]{1,128}$", "must be a tool name: 1 to 128 letters, digits, _, - and ."),
]
