"""Sessions that live in another replica.

Clients reach replicas at random, and a session of the handshake era lives in one of them. So the id of everything that
lives in a process names its replica, signed with a key that only the replicas have: an address that comes from outside
is never believed. A request that reaches another replica is passed to the owner as it is; where the owner is gone the
session is, too, and the client is told so (404, basic/transports, Session Management).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from typing import Final

from starlette.types import Receive, Send

from mcp_connections.proxy.channels.http_client import HttpClient, HttpFault
from mcp_connections.proxy.server.disconnects import until_gone
from mcp_connections.proxy.wire.forwarded_headers import nominated

log = logging.getLogger(__name__)

HOP_HEADER: Final = b"x-mcp-connections-hop"
"""Set on what one replica passes to another: it goes no further."""
CONNECT_SECONDS: Final = 2.0
MAX_OWNERS: Final = 256
_NOT_PASSED: Final = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"upgrade", b"te", b"trailer", HOP_HEADER)
)
_SIGNATURE_BYTES: Final = 12


class Replica:
    """This process among its replicas. Without an address and a key it is the only one."""

    def __init__(self, address: str = "", key: bytes = b"") -> None:
        """``address``: host and port under which the others reach this one's public port."""
        self._address = address if key else ""
        self._key = key
        self._clients: dict[str, HttpClient] = {}

    def new_id(self) -> str:
        """An id that cannot be guessed, for something that lives in this process."""
        token = secrets.token_urlsafe(24)
        if not self._address:
            return token
        owner = base64.urlsafe_b64encode(self._address.encode()).decode().rstrip("=")
        return f"{token}.{owner}.{self._signature(token, owner)}"

    def _signature(self, token: str, owner: str) -> str:
        digest = hmac.digest(self._key, f"{token}.{owner}".encode(), hashlib.sha256)[:_SIGNATURE_BYTES]
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def owner_of(self, identifier: str) -> str | None:
        """The address of the other replica that an id was made in; None for one of our own, and for any that no
        replica made."""
        token, _, rest = identifier.partition(".")
        owner, _, signature = rest.partition(".")
        if not self._address or not hmac.compare_digest(signature.encode(), self._signature(token, owner).encode()):
            return None
        address = base64.urlsafe_b64decode(owner + "=" * (-len(owner) % 4)).decode()
        return address if address != self._address else None

    async def pass_on(
        self,
        owner: str,
        method: str,
        fields: list[tuple[bytes, bytes]],
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> bool:
        """Have the owner answer the request; False where it cannot be reached, and nothing was sent."""
        head = [f"{method} /mcp HTTP/1.1\r\n".encode()]
        not_passed = _NOT_PASSED | nominated(fields)
        head += [b"%s: %s\r\n" % (name, value) for name, value in fields if name not in not_passed]
        head.append(b"%s: 1\r\ncontent-length: %d\r\n\r\n" % (HOP_HEADER, len(body)))
        request = b"".join(head) + body
        reached = True

        async def answer() -> None:
            nonlocal reached
            try:
                response = await self._client(owner).request(request)
            except HttpFault as fault:
                log.info("the replica %s, which owns a session, cannot be reached: %s", owner, fault)
                reached = False
                return
            headers = [(name, value) for name, value in response.headers.items() if name not in _NOT_PASSED]
            if not response.streamed:
                headers.append((b"content-length", b"%d" % len(response.body)))
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            if response.streamed:
                try:
                    while chunk := await response.read():
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                except HttpFault as fault:
                    log.info("the replica %s, which owns a session, ended: %s", owner, fault)
                finally:
                    response.release()
            await send({"type": "http.response.body", "body": response.body})

        await until_gone(receive, answer)
        return reached

    def _client(self, owner: str) -> HttpClient:
        client = self._clients.get(owner)
        if client is None:
            if len(self._clients) >= MAX_OWNERS:
                self._clients.pop(next(iter(self._clients))).close()
            client = self._clients[owner] = HttpClient(f"http://{owner}/mcp", tls=None, connect_timeout=CONNECT_SECONDS)
        return client

    def close(self) -> None:
        """Close the connections to other replicas."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def derived_key(token: str) -> bytes:
    """The key that replicas sign with, from the secret they share: their admin token."""
    return hmac.digest(token.encode(), b"mcp-connections session owner", hashlib.sha256)
