"""Spans of relayed requests, by the OpenTelemetry API: without an SDK the context is passed on and nothing recorded.

A client's context comes in the request's ``_meta``, or else in the headers of its HTTP request. It goes to the backend
both ways: in ``_meta``, which every transport carries, and in headers, which what stands in between can read. The
attributes are those of the semantic conventions for MCP, and never an argument or a result.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from msgspec import Raw
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcp_connections import __version__
from mcp_connections.proxy.telemetry.metrics import OK
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import NAME_MEMBER
from mcp_connections.proxy.wire.jsonrpc import Envelope
from mcp_connections.proxy.wire.trace_context import MEMBERS, TRACEPARENT, incoming, send_with

_ATTRIBUTES: Final = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
}
"""The attribute for what a request asks for."""
_MARK: Final = b'"%s"' % TRACEPARENT.encode()
_PROPAGATOR: Final = TraceContextTextMapPropagator()
# It repeats what it cannot read, whole, and a client may send that with every request.
logging.getLogger("opentelemetry.trace.span").setLevel(logging.CRITICAL)


class CallSpan:
    """The span of one relayed request."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def trace_id(self) -> str | None:
        """In hexadecimal digits; None where there is no trace after all."""
        context = self._span.get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    def end(self, outcome: str) -> None:
        """The request ended so (one of ``metrics.OUTCOMES``)."""
        if outcome != OK:
            self._span.set_attribute("error.type", outcome)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class Tracing:
    """Begins spans. One for each process, made after whoever records them has set a tracer provider."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("mcp-connections", __version__)
        self._records = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    def begin(self, method: str, connection: str, message: Envelope) -> CallSpan | None:
        """The span of a request that is about to go to ``connection``, whose context is put into ``message`` and into
        the headers that go with it. None where there is neither a trace to continue nor anybody who records."""
        params = message.get("params", jsonrpc.NULL)
        in_meta = _MARK in bytes(params)
        headers = incoming.get()
        if not in_meta and headers is None and not self._records:
            return None
        members = jsonrpc.decode_envelope(params)
        try:
            meta = jsonrpc.decode_envelope(members.get("_meta", Raw(b"{}")))
        except jsonrpc.DecodeError:
            return None  # what it means is the backend's to say
        carried = _carrier(meta)
        context = _PROPAGATOR.extract(carried)
        if headers is not None and not trace.get_current_span(context).get_span_context().is_valid:
            context = _PROPAGATOR.extract(headers)
        span = self._tracer.start_span(
            self._name(method, members),
            context=context,
            kind=SpanKind.SERVER,
            attributes=self._attributes(method, connection, members) if self._records else None,
        )
        context_out: dict[str, str] = {}
        _PROPAGATOR.inject(context_out, trace.set_span_in_context(span, context))
        if context_out:
            send_with("".join(f"{name}: {value}\r\n" for name, value in context_out.items()).encode("ascii"))
            if self._records or not carried:  # else it says so already, in its client's words
                for name in MEMBERS:
                    meta.pop(name, None)
                meta |= {name: Raw(jsonrpc.encode(value)) for name, value in context_out.items()}
                members["_meta"] = Raw(jsonrpc.encode(meta))
                message["params"] = Raw(jsonrpc.encode(members))
        return CallSpan(span)

    def _name(self, method: str, members: dict[str, Raw]) -> str:
        # A resource's URI has no bound to its values, so it is no part of a name.
        if not self._records or NAME_MEMBER.get(method) != "name":
            return method
        return f"{method} {jsonrpc.decode_str(members['name'])}"

    def _attributes(self, method: str, connection: str, members: dict[str, Raw]) -> dict[str, Any]:
        attributes = {"mcp.method.name": method, "mcp_connections.connection": connection}
        if (attribute := _ATTRIBUTES.get(method)) is not None:
            attributes[attribute] = jsonrpc.decode_str(members[NAME_MEMBER[method]])
        return attributes


def _carrier(meta: dict[str, Raw]) -> dict[str, str]:
    """What ``_meta`` says of a trace; anything but text says nothing, and nor does a state without a parent."""
    found: dict[str, str] = {}
    for name in MEMBERS:
        value = jsonrpc.decode_any(meta[name]) if name in meta else None
        if isinstance(value, str):
            found[name] = value
    return found if TRACEPARENT in found else {}
