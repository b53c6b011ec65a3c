"""What a stateless client can ask of the endpoint (2026-07-28), relayed to backends of either era."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Raw

from mcp_connections import __version__
from mcp_connections.proxy.downstream.client_capability import can_be_asked
from mcp_connections.proxy.downstream.relay import FIRST_LIST_SECONDS, LISTED, Relay
from mcp_connections.proxy.downstream.stateless.answers import code_of, of_this_era
from mcp_connections.proxy.downstream.stateless.client import PooledClient
from mcp_connections.proxy.downstream.stateless.stream import StatelessStream
from mcp_connections.proxy.downstream.stateless.suspended_call import SuspendedCall, SuspendedCalls, digest_of
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.upstream.session import Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import META_SERVER, SUPPORTED_VERSIONS
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Envelope, RpcError

SERVER_INFO: Final = {"name": "mcp-connections", "version": __version__}
CACHING: Final = b'"ttlMs":0,"cacheScope":"private"'
"""Lists change whenever a connection does, and subscriptions/listen says when."""


class Response(NamedTuple):
    """A whole JSON-RPC response, and the code of its error if it is one: HTTP has a status for some."""

    body: bytes
    error_code: int | None = None


class StatelessRelay:
    """Requests that carry their own version, client and capabilities."""

    def __init__(self, registry: Registry, relay: Relay) -> None:
        self._registry = registry
        self._relay = relay
        self._suspended = SuspendedCalls()

    async def answer(
        self, client: PooledClient, method: str, request_id: bytes, message: Envelope, stream: StatelessStream
    ) -> Response:
        """The response to a request that passed validation. Raises RpcError."""
        self._relay.admit(client, method)
        if method in ("tools/call", "prompts/get", "resources/read"):
            response = await self._interactive(client, method, message, stream)
        elif method == "completion/complete":
            response = await self._relay.complete(client, message, stream)
        elif method in LISTED:
            return Response(jsonrpc.result(request_id, await self._list(client, method, message)))
        elif method == "server/discover":
            return Response(jsonrpc.result(request_id, await self._discover(client)))
        else:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        response["id"] = Raw(request_id)
        response = of_this_era(response, method, client.capabilities)
        return Response(jsonrpc.encode(response), code_of(response.get("error")))

    def admit(self, client: PooledClient) -> None:
        """As for any other request, for one that is answered elsewhere. Raises RpcError."""
        self._relay.admit(client, "subscriptions/listen")

    async def _discover(self, client: PooledClient) -> bytes:
        await self._registry.second_eras(FIRST_LIST_SECONDS)
        result: dict[str, Any] = {
            "resultType": "complete",
            "supportedVersions": SUPPORTED_VERSIONS,
            "capabilities": self._relay.capabilities(client.principal, client.era),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {META_SERVER: SERVER_INFO},
        }
        if instructions := self._relay.instructions(client.principal, client.era):
            result["instructions"] = instructions
        return jsonrpc.encode(result)

    async def _list(self, client: PooledClient, method: str, message: Envelope) -> bytes:
        whole = await self._relay.list(client, LISTED[method], message)
        stamp = jsonrpc.encode({META_SERVER: SERVER_INFO})
        return b'%s,"resultType":"complete",%s,"_meta":%s}' % (whole[:-1], CACHING, stamp)

    # requests that may be answered with a question

    async def _interactive(
        self, client: PooledClient, method: str, message: Envelope, stream: StatelessStream
    ) -> Envelope:
        params = jsonrpc.members(message.get("params"), method)
        digest = digest_of(method, params)
        call = self._resumed(client, digest, params)
        if call is None:
            mount = self._relay.owner(client, method, params)
            if mount is None or await mount.is_stateless_for(client):
                return await self._plain(client, method, message, stream, mount)
            if "requestState" in params:
                # Such a backend gives out none. Calling it anew would do twice what the client means to go on with.
                raise RpcError(INVALID_PARAMS, "params.requestState is unknown or has expired; send the request anew")
            if not can_be_asked(client.capabilities):
                return await self._plain(client, method, message, stream, mount)
            call = SuspendedCall(
                client,
                digest,
                stream.fields,
                lambda scope: self._plain(client, method, message, scope, mount, stream.log_level),
            )
        return await self._proceed(call, stream, params)

    async def _plain(
        self,
        client: PooledClient,
        method: str,
        message: Envelope,
        scope: Scope,
        mount: Mount | None,
        log_level: str | None = None,
    ) -> Envelope:
        level = log_level or (scope.log_level if isinstance(scope, StatelessStream) else None)
        if mount is not None and level is not None:
            threshold = client.want_logs(level)
            await mount.attend(lambda leg: leg.set_level(threshold), client)
        return await self._relay.relay(client, method, message, scope)

    def _resumed(self, client: PooledClient, digest: bytes, params: dict[str, Raw]) -> SuspendedCall | None:
        """The call that the client comes back to, with its answers passed on."""
        if "requestState" not in params:
            return None
        call = self._suspended.resume(jsonrpc.string_member(params, "requestState", "retry"), client, digest)
        if call is not None:
            call.answer(jsonrpc.members(params.get("inputResponses"), "retry: params.inputResponses"))
        return call

    async def _proceed(self, call: SuspendedCall, stream: StatelessStream, params: dict[str, Raw]) -> Envelope:
        response = await call.proceed(stream, params)
        if response is not None:
            return response
        self._suspended.park(call)
        return {"jsonrpc": jsonrpc.VERSION, "result": Raw(call.questions())}

    def cancel_all(self) -> None:
        """The process stops: nobody can come back."""
        self._suspended.cancel_all()
