"""How a backend is reached: by streamable HTTP, legacy SSE, WebSocket, or as a child process over stdio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from mcp_connections.api.lists import LIST_TYPE, ListMap
from mcp_connections.api.model import ApiModel
from mcp_connections.api.resources import ResourceRequirements
from mcp_connections.api.rules import Rule, one_of
from mcp_connections.api.secret_refs import CaBundleRef, ValueSource
from mcp_connections.api.strings import (
    OWN_HEADERS,
    Argument,
    EnvName,
    EnvValue,
    HeaderName,
    HeaderValue,
    HttpUrl,
    WebSocketUrl,
)


class Header(ApiModel):
    """An HTTP header sent with every request. Exactly one of value and valueFrom is set."""

    name: HeaderName
    """Name of the header. Compared without regard to case."""
    value: HeaderValue | None = None
    """The value itself. Readable by everybody who may read the resource: credentials belong in a Secret."""
    value_from: ValueSource | None = None
    """Where the value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        one_of("value", "valueFrom"),
        Rule(
            cel=(
                f"!(self.name.lowerAscii() in {list(OWN_HEADERS)!r}) && "
                "!self.name.lowerAscii().startsWith('sec-websocket-')"
            ),
            message="must not be a header that HTTP or MCP itself sets, such as Host or Mcp-Session-Id",
            holds=lambda header: not _is_own(header.name),
            field="name",
        ),
    )


def _is_own(name: str) -> bool:
    return name.lower() in OWN_HEADERS or name.lower().startswith("sec-websocket-")


def _distinct_names(headers: Iterable[Header]) -> bool:
    names = [header.name.lower() for header in headers]
    return len(set(names)) == len(names)


Headers = Annotated[
    tuple[Header, ...],
    Field(max_length=32),
    ListMap("name"),
    Rule(
        cel="self.all(a, self.exists_one(b, b.name.lowerAscii() == a.name.lowerAscii()))",
        message="must not name a header twice, whatever its case",
        holds=_distinct_names,
    ),
]


class HttpTransport(ApiModel):
    """A backend that speaks MCP's streamable HTTP transport."""

    url: HttpUrl
    """URL of the MCP endpoint. Used exactly as given: no path is appended."""
    headers: Headers = ()
    """Headers sent with every request."""
    ca_bundle_ref: CaBundleRef | None = None
    """Authorities to trust for https instead of the system's."""


class SseTransport(ApiModel):
    """A backend that speaks the HTTP+SSE transport of MCP 2024-11-05."""

    url: HttpUrl
    """URL of the event stream. Used exactly as given."""
    headers: Headers = ()
    """Headers sent with every request."""
    ca_bundle_ref: CaBundleRef | None = None
    """Authorities to trust for https instead of the system's."""


class WebSocketTransport(ApiModel):
    """A backend that speaks MCP over a WebSocket with subprotocol ``mcp``. Not part of the MCP specification."""

    url: WebSocketUrl
    """URL of the WebSocket. Used exactly as given."""
    headers: Headers = ()
    """Headers sent with the opening handshake."""
    ca_bundle_ref: CaBundleRef | None = None
    """Authorities to trust for wss instead of the system's."""


class EnvVar(ApiModel):
    """An environment variable of the child process. Exactly one of value and valueFrom is set."""

    name: EnvName
    """Name of the variable."""
    value: EnvValue | None = None
    """The value itself. Readable by everybody who may read the resource: credentials belong in a Secret."""
    value_from: ValueSource | None = None
    """Where the value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("value", "valueFrom"),)


class StdioTransport(ApiModel):
    """A backend run as a child process that speaks MCP over its stdin and stdout."""

    command: Annotated[
        tuple[Argument, ...],
        Field(min_length=1, max_length=64, json_schema_extra={LIST_TYPE: "atomic"}),
        Rule(
            cel="self.size() == 0 || self[0] != ''",
            message="must begin with the program to run",
            holds=lambda command: not command or command[0] != "",
        ),
    ]
    """The program and its arguments. No shell is involved."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = ()
    """Environment variables, on top of a short list inherited from the proxy (PATH, HOME, LANG and the like), or in a
    cluster of those of the image."""
    working_dir: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """Directory to run in. Default: the proxy's own, or in a cluster the image's."""
    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """Image of the pod that runs the command in a cluster. It must hold the program ``mcp-connections`` beside the
    command. Default: the proxy's own. Without effect outside a cluster."""
    resources: ResourceRequirements = ResourceRequirements()
    """Compute resources of that pod's container. Each client session runs the command once. Without effect outside a
    cluster."""


class Transport(ApiModel):
    """How the backend is reached. Exactly one of its members is set."""

    http: HttpTransport | None = None
    """Streamable HTTP."""
    sse: SseTransport | None = None
    """HTTP+SSE of MCP 2024-11-05, for backends that have nothing newer."""
    web_socket: WebSocketTransport | None = None
    """WebSocket."""
    stdio: StdioTransport | None = None
    """A child process."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("http", "sse", "webSocket", "stdio"),)

    @property
    def kind(self) -> str:
        """Name of the member that is set: http, sse, webSocket or stdio."""
        members = {"http": self.http, "sse": self.sse, "webSocket": self.web_socket, "stdio": self.stdio}
        return next(name for name, member in members.items() if member is not None)

    @property
    def address(self) -> str | None:
        """The URL without its query, which may hold a credential; None for stdio."""
        return self.remote.url.partition("?")[0] if self.remote else None

    @property
    def remote(self) -> HttpTransport | SseTransport | WebSocketTransport | None:
        """The transport by URL, or None for stdio."""
        return self.http or self.sse or self.web_socket
