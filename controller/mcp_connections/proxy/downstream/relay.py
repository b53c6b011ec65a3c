"""Client requests, answered from the catalogue or relayed to the one backend they concern.

Only names, URIs, ids and progress tokens are rewritten. What a backend answers, an error too, is what the client gets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Raw

from mcp_connections import __version__
from mcp_connections.proxy.access.client_access import Principal
from mcp_connections.proxy.catalogue.catalogue import Aggregate, Target
from mcp_connections.proxy.catalogue.discovery import LISTINGS, Kind
from mcp_connections.proxy.channels.channel import ChannelError
from mcp_connections.proxy.downstream.client_rates import ClientRates
from mcp_connections.proxy.downstream.client_session import ClientSession
from mcp_connections.proxy.registry.client import Client
from mcp_connections.proxy.registry.mount import Mount
from mcp_connections.proxy.registry.registry import Registry
from mcp_connections.proxy.telemetry import audit
from mcp_connections.proxy.telemetry.metrics import OK, Metrics
from mcp_connections.proxy.telemetry.tracing import Tracing
from mcp_connections.proxy.upstream.session import Scope
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.eras import HANDSHAKE_VERSIONS, Era
from mcp_connections.proxy.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, Envelope, RpcError
from mcp_connections.proxy.wire.log_level import LOG_LEVELS
from mcp_connections.proxy.wire.rewrite import public_result

log = logging.getLogger(__name__)

FIRST_LIST_SECONDS: Final = 3.0
"""How long a client may wait for backends whose first attempt has not ended; then it gets what there is."""
LISTED: Final = {listing.method: listing.kind for listing in LISTINGS}

Handler = Callable[[Client, Envelope, Scope], Awaitable[Envelope]]
SessionHandler = Callable[[ClientSession, Envelope], Awaitable[Envelope]]


class Relay:
    """What a client can ask of the endpoint once it is initialized."""

    def __init__(self, registry: Registry, metrics: Metrics) -> None:
        self._registry = registry
        self._metrics = metrics
        self._tracing = Tracing()
        self._rates = ClientRates()
        self._handlers: dict[str, Handler] = {
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self.complete,
        }
        self._session_handlers: dict[str, SessionHandler] = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    # initialize

    async def introduce(self, protocol_version: str, principal: Principal) -> bytes:
        """The result of initialize for ``principal``, whose client offered ``protocol_version``."""
        await self._registry.first_attempts(FIRST_LIST_SECONDS)
        result: dict[str, Any] = {
            "protocolVersion": protocol_version,
            "capabilities": self.capabilities(principal, "handshake"),
            "serverInfo": {"name": "mcp-connections", "version": __version__},
        }
        if instructions := self.instructions(principal, "handshake"):
            result["instructions"] = instructions
        return jsonrpc.encode(result)

    def capabilities(self, principal: Principal, era: Era) -> dict[str, Any]:
        """What the backends have, together. Tools are always there: backends that have them may be added any time."""
        backends = [mount.capabilities(era) for mount in self._registry.mounts_for(principal)]
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if any("resources" in each for each in backends):
            resources: dict[str, bool] = {"listChanged": True}
            if any(_declares(each.get("resources"), "subscribe") for each in backends):
                resources["subscribe"] = True
            capabilities["resources"] = resources
        if any("prompts" in each for each in backends):
            capabilities["prompts"] = {"listChanged": True}
        for plain in ("completions", "logging"):
            if any(plain in each for each in backends):
                capabilities[plain] = {}
        return capabilities

    def instructions(self, principal: Principal, era: Era) -> str:
        """What the backends tell models about themselves, each under its prefix."""
        return "\n\n".join(
            f"[{mount.spec.prefix or mount.label}] {instructions}"
            for mount in self._registry.mounts_for(principal)
            if (instructions := mount.instructions(era))
        )

    # requests

    async def answer(
        self, client: ClientSession, method: str, request_id: bytes, message: Envelope, stream: Scope
    ) -> bytes:
        """The whole JSON-RPC response to a request. Never raises but for cancellation."""
        handler = self._handlers.get(method)
        try:
            self.admit(client, method)
            if handler is not None:
                response = await handler(client, message, stream)
                response["id"] = Raw(request_id)
                return jsonrpc.encode(response)
            if (of_session := self._session_handlers.get(method)) is not None:
                response = await of_session(client, message)
                response["id"] = Raw(request_id)
                return jsonrpc.encode(response)
            if (kind := LISTED.get(method)) is not None:
                return jsonrpc.result(request_id, await self.list(client, kind, message))
            if method == "ping":
                return jsonrpc.result(request_id, b"{}")
            if method == "logging/setLevel":
                return jsonrpc.result(request_id, await self._set_level(client, message))
        except RpcError as error:
            return jsonrpc.failure(request_id, error)
        except Exception as error:
            log.exception("%s: unexpected failure", method)
            return jsonrpc.failure(
                request_id, RpcError(jsonrpc.INTERNAL_ERROR, f"{method}: unexpected failure: {error!r}")
            )
        return jsonrpc.failure(request_id, RpcError(METHOD_NOT_FOUND, f"Method not found: {method}"))

    def admit(self, client: Client, method: str) -> None:
        """Raises RpcError where the client makes more requests than it may."""
        limit = self._registry.client_rate_limit
        if limit is None or method == "ping":
            return
        try:
            self._rates.check(limit, client)
        except RpcError:
            self._metrics.client_refused()
            raise

    async def list(self, client: Client, kind: Kind, message: Envelope) -> bytes:
        """The result of a list request. Raises RpcError."""
        params = jsonrpc.members(message.get("params"), "list")
        if "cursor" in params and bytes(params["cursor"]) != b"null":
            raise RpcError(INVALID_PARAMS, "params.cursor is not one that was given out: lists here have one page")
        await self._found_out(client)
        return self._view(client).results[kind]

    def _view(self, client: Client) -> Aggregate[Mount]:
        return self._registry.view(client.principal, client.era)

    async def _found_out(self, client: Client) -> None:
        """Wait, but not long, until it is known what all backends offer such a client."""
        if client.era == "stateless":
            await self._registry.second_eras(FIRST_LIST_SECONDS)
        else:
            await self._registry.first_attempts(FIRST_LIST_SECONDS)

    async def _call_tool(self, client: Client, message: Envelope, stream: Scope) -> Envelope:
        return await self._relay_named("tool", "Unknown tool", client, message, stream)

    async def _get_prompt(self, client: Client, message: Envelope, stream: Scope) -> Envelope:
        return await self._relay_named("prompt", "Unknown prompt", client, message, stream)

    async def _relay_named(
        self, kind: Kind, unknown: str, client: Client, message: Envelope, stream: Scope
    ) -> Envelope:
        method = jsonrpc.decode_str(message["method"])
        params = jsonrpc.members(message.get("params"), method)
        name = jsonrpc.string_member(params, "name", method)
        mount, own = await self._named(client, kind, name, unknown)
        params["name"] = Raw(jsonrpc.encode(own))
        message["params"] = Raw(jsonrpc.encode(params))
        return await self._relay(mount, method, client, message, stream)

    async def _named(self, client: Client, kind: Kind, name: str, unknown: str) -> Target[Mount]:
        target = self._view(client).targets[kind].get(name)
        if target is None and client.era == "stateless":
            await self._found_out(client)
            target = self._view(client).targets[kind].get(name)
        if target is not None:
            return target
        for mount in self._registry.mounts_for(client.principal):
            # Without a catalogue only the prefix tells that the name may be this mount's.
            if (
                mount.public is None
                and mount.spec.prefix
                and name.startswith(mount.spec.prefix + self._registry.separator)
            ):
                if not mount.attempted.is_set():
                    await self._registry.first_attempts(FIRST_LIST_SECONDS)
                    if (found := self._view(client).targets[kind].get(name)) is not None:
                        return found
                mount.wake()
                raise mount.unavailable()
        raise RpcError(INVALID_PARAMS, f"{unknown}: {name}")

    async def _read_resource(self, client: Client, message: Envelope, stream: Scope) -> Envelope:
        mount, _ = await self._located(client, "resources/read", message)
        return await self._relay(mount, "resources/read", client, message, stream)

    async def _located(self, client: Client, method: str, message: Envelope) -> Target[Mount]:
        """The mount of ``params.uri``, which is replaced by the backend's own URI."""
        params = jsonrpc.members(message.get("params"), method)
        uri = jsonrpc.string_member(params, "uri", method)
        target = self._view(client).locate(uri)
        if target is None:
            await self._found_out(client)
            target = self._view(client).locate(uri)
        if target is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})
        params["uri"] = Raw(jsonrpc.encode(target.own))
        message["params"] = Raw(jsonrpc.encode(params))
        return target

    async def _subscribe(self, client: ClientSession, message: Envelope) -> Envelope:
        uri = _uri("resources/subscribe", message)
        mount, own = await self._located(client, "resources/subscribe", message)
        if not mount.offers_subscriptions(client.era):
            raise RpcError(METHOD_NOT_FOUND, f"connection {mount.label} does not offer resource subscriptions")
        return await client.subscriptions.subscribe(uri, mount, own, message)

    async def _unsubscribe(self, client: ClientSession, message: Envelope) -> Envelope:
        answer = None
        if not client.subscriptions.drop(_uri("resources/unsubscribe", message)):
            mount, own = await self._located(client, "resources/unsubscribe", message)
            answer = await mount.attend(lambda leg: leg.unsubscribe(client, own, message), client)
        return answer if answer is not None else {"jsonrpc": jsonrpc.VERSION, "result": Raw(b"{}")}

    async def complete(self, client: Client, message: Envelope, stream: Scope) -> Envelope:
        """``completion/complete``, by the backend that has the prompt or template. Raises RpcError."""
        method = "completion/complete"
        params = jsonrpc.members(message.get("params"), method)
        reference = jsonrpc.members(params.get("ref"), f"{method}: params.ref")
        kind = jsonrpc.string_member(reference, "type", f"{method}: params.ref")
        if kind == "ref/prompt":
            name = jsonrpc.string_member(reference, "name", f"{method}: params.ref")
            target = await self._named(client, "prompt", name, "Unknown prompt")
            reference["name"] = Raw(jsonrpc.encode(target.own))
        elif kind == "ref/resource":
            uri = jsonrpc.string_member(reference, "uri", f"{method}: params.ref")
            view = self._view(client)
            found = view.targets["resourceTemplate"].get(uri) or view.locate(uri)
            if found is None:
                raise RpcError(INVALID_PARAMS, f"{method}: unknown resource template {uri}")
            target = found
            reference["uri"] = Raw(jsonrpc.encode(target.own))
        else:
            raise RpcError(
                INVALID_PARAMS, f"{method}: params.ref.type must be ref/prompt or ref/resource, not {kind!r}"
            )
        if "completions" not in target.owner.capabilities(client.era):
            # No suggestions is what a client makes of a server without completions.
            return {"jsonrpc": jsonrpc.VERSION, "result": Raw(b'{"completion":{"values":[]}}')}
        params["ref"] = Raw(jsonrpc.encode(reference))
        message["params"] = Raw(jsonrpc.encode(params))
        return await self._relay(target.owner, method, client, message, stream)

    async def _set_level(self, client: ClientSession, message: Envelope) -> bytes:
        params = jsonrpc.members(message.get("params"), "logging/setLevel")
        level = jsonrpc.string_member(params, "level", "logging/setLevel")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"logging/setLevel: params.level must be one of {', '.join(LOG_LEVELS)}")
        client.log_level = level
        mounts = self._registry.mounts_for(client.principal)
        logging_mounts = [mount for mount in mounts if "logging" in mount.capabilities(client.era)]
        outcomes = await asyncio.gather(
            *(mount.attend(lambda leg: leg.set_level(level), client) for mount in logging_mounts),
            return_exceptions=True,
        )
        for mount, outcome in zip(logging_mounts, outcomes, strict=True):
            if isinstance(outcome, RpcError | ChannelError):
                log.warning("connection %s: the log level could not be set: %s", mount.label, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
        return b"{}"

    async def relay(self, client: Client, method: str, message: Envelope, scope: Scope) -> Envelope:
        """``tools/call``, ``prompts/get`` or ``resources/read``, by the backend that has it. Raises RpcError."""
        return await self._handlers[method](client, message, scope)

    def owner(self, client: Client, method: str, params: dict[str, Raw]) -> Mount | None:
        """The mount that ``relay`` would choose, if it is known already."""
        aggregate = self._view(client)
        if method == "resources/read":
            target = aggregate.locate(jsonrpc.string_member(params, "uri", method))
        else:
            kind: Kind = "tool" if method == "tools/call" else "prompt"
            target = aggregate.targets[kind].get(jsonrpc.string_member(params, "name", method))
        return target.owner if target is not None else None

    async def _relay(self, mount: Mount, method: str, client: Client, message: Envelope, stream: Scope) -> Envelope:
        started = time.perf_counter()
        target = audit.target_of(method, message) if self._registry.audits_calls else None
        span = self._tracing.begin(method, mount.label, message)
        outcome = "Cancelled"
        try:
            response = await mount.call(client, message, stream)
            outcome = "BackendError" if "error" in response else OK
        except RpcError as error:
            outcome = error.data.get("reason", "other") if isinstance(error.data, dict) else "other"
            raise
        finally:
            seconds = time.perf_counter() - started
            self._metrics.call_finished(mount.label, outcome, seconds, method)
            if span is not None:
                span.end(outcome)
            if target is not None:
                audit.record(
                    client.principal,
                    connection=mount.label,
                    method=method,
                    target=target,
                    outcome=outcome,
                    seconds=seconds,
                    trace_id=span.trace_id if span is not None else None,
                )
        result = response.get("result")
        if result is not None:
            response["result"] = public_result(method, result, mount.spec.prefix)
        return response


def negotiate(offered: str) -> str:
    """The protocol version to answer initialize with: the client's if it is known, else the newest
    (basic/lifecycle, Version Negotiation)."""
    return offered if offered in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]


def _uri(method: str, message: Envelope) -> str:
    return jsonrpc.string_member(jsonrpc.members(message.get("params"), method), "uri", method)


def _declares(capability: object, flag: str) -> bool:
    return isinstance(capability, dict) and capability.get(flag) is True
