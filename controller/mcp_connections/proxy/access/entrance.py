"""The door of the endpoint: names, origin and credentials, before anything is read of a request.

The settings come with the desired mounts, so that a rotated token or a new host name takes effect with the next
reload, without a restart.
"""

from __future__ import annotations

from mcp_connections.mounts.spec import Access
from mcp_connections.proxy.access.client_access import (
    ANONYMOUS,
    METADATA_PATH,
    Denied,
    Gate,
    OpenGate,
    Principal,
    gate_for,
    resource_metadata,
)
from mcp_connections.proxy.access.host_guard import HostGuard
from mcp_connections.proxy.wire.jsonrpc import INVALID_REQUEST, RpcError

Headers = dict[bytes, bytes]


class Refusal(Exception):
    """Answer the HTTP request with this status and JSON-RPC error."""

    def __init__(self, status: int, code: int, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status = status
        self.error = RpcError(code, message)
        self.headers = list(headers)


class Entrance:
    """Lets in who may come in, by the access settings last set."""

    def __init__(self, bind: str) -> None:
        self._bind = bind
        self._access: Access | None = None
        self._guard = HostGuard(bind)
        self._gate: Gate = OpenGate()

    def use(self, access: Access) -> None:
        """Go by these settings from now on."""
        if access is self._access:
            return
        unchanged = self._access is not None and access == self._access
        self._access = access
        if not unchanged:  # what the gate remembers of tokens outlives reloads that do not concern it
            self._guard = HostGuard(self._bind, access.allowed_hosts)
            self._gate = gate_for(access)

    def check_name(self, headers: Headers) -> None:
        """Raises Refusal for a Host or Origin that is not served."""
        host = headers.get(b"host", b"")
        if not self._guard.allows(host):
            raise Refusal(421, INVALID_REQUEST, self._guard.explain(host))
        origin = headers.get(b"origin")
        if not self._guard.allows_origin(origin):
            shown = (origin or b"").decode("latin-1")
            where = "the allowed hosts of this proxy (spec.allowedHosts of its McpProxy)"
            raise Refusal(403, INVALID_REQUEST, f"Origin {shown!r} is not among {where}")

    async def admit(self, headers: Headers, scheme: str) -> Principal:
        """Who the client is. Raises Refusal; ``scheme`` is the one of the request."""
        gate = self._gate
        if gate.is_open:
            return ANONYMOUS
        try:
            return await gate.admit(headers.get(b"authorization"))
        except Denied as denied:
            metadata = f"{_base(headers, scheme)}{METADATA_PATH}/mcp" if self._has_metadata else None
            challenge = (b"www-authenticate", denied.challenge(metadata))
            raise Refusal(denied.status, INVALID_REQUEST, str(denied), challenge) from None

    @property
    def _has_metadata(self) -> bool:
        return self._access is not None and self._access.jwt is not None

    def metadata(self, headers: Headers, scheme: str) -> bytes | None:
        """The protected resource metadata (RFC 9728); None where there is no authorization server to name."""
        if self._access is None or self._access.jwt is None:
            return None
        return resource_metadata(self._access.jwt, f"{_base(headers, scheme)}/mcp")


def _base(headers: Headers, scheme: str) -> str:
    forwarded = headers.get(b"x-forwarded-proto", b"").decode("latin-1").partition(",")[0].strip()
    host = headers.get(b"host", b"localhost").decode("latin-1")
    return f"{forwarded if forwarded in ('http', 'https') else scheme}://{host}"
