"""The narrow interface between the relay and a transport: JSON-RPC messages out, JSON-RPC messages in.

A channel belongs to exactly one upstream session, which opens it, uses it and closes it. It knows its
transport's framing and faults, and nothing of MCP beyond what the transport itself needs.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.wire.forwarded_headers import HeaderForwarding
from mcp_connections.proxy.wire.jsonrpc import Envelope

MessageHandler = Callable[[Envelope], None]

NO_SECRETS: Final = Redactor(())


class ChannelError(Exception):
    """A transport fault. ``reason`` is a Ready reason of the connection's status; the text says what happened
    to what. ``executed`` is False only where the request provably never reached the backend. ``quoted`` is what the
    backend said, at the end of the text: not for other clients than the one it was said to."""

    reason = "Unreachable"

    def __init__(self, message: str, *, executed: bool = True, quoted: str = "") -> None:
        super().__init__(message + quoted)
        self.executed = executed
        self.unquoted = message


class Unreachable(ChannelError):
    """Refused, reset, closed, unresolvable, or an HTTP status that says the backend is not there."""


class TimedOut(ChannelError):
    """No answer within the time the connection's policy allows."""

    reason = "Timeout"


class Unauthorized(ChannelError):
    """The backend refused the configured credential (HTTP 401 or 403)."""

    reason = "Unauthorized"


class ProtocolViolation(ChannelError):
    """The backend's answer is not what MCP or its transport asks for, or is larger than the limit."""

    reason = "ProtocolError"


class HandshakeRefused(ProtocolViolation):
    """The backend answered the opening of this era with an error: it may speak the other one."""


class CommandNotFound(ChannelError):
    """The stdio command does not exist or cannot be executed."""

    reason = "CommandNotFound"


class Exited(ChannelError):
    """The stdio child ended. The text holds the exit code or signal and the tail of its stderr."""

    reason = "Exited"


class SessionLost(ChannelError):
    """The backend no longer knows this session (HTTP 404, see the specification under Session Management).

    The request was not executed, so it may be sent again in a new session. ``outage`` is the Ready reason of what
    ended the session, where that is more than forgetfulness: the end of the program behind a bridge.
    """

    def __init__(self, message: str, *, outage: str | None = None) -> None:
        super().__init__(message, executed=False)
        self.outage = outage
        if outage is not None:
            self.reason = outage


def unsent(error: ChannelError) -> ChannelError:
    """The same fault, for a request that was never sent because of it."""
    return _with_executed(error, executed=False)


def begun(error: ChannelError) -> ChannelError:
    """The same fault, for a request of which an earlier part has run."""
    return _with_executed(error, executed=True)


def _with_executed(error: ChannelError, *, executed: bool) -> ChannelError:
    # A copy: requests that were under way may have been told of the very same object.
    fault = copy.copy(error)
    fault.executed = executed
    return fault


class Channel(ABC):
    """One open transport to one backend.

    ``on_message`` gets every inbound message that is not the response to a pending exchange (requests and
    notifications of the backend). It must not block. ``on_lost`` is called at most once, when the transport
    ends by itself; every pending exchange has failed by then.
    """

    on_message: MessageHandler
    on_lost: Callable[[ChannelError], None]
    redactor = NO_SECRETS
    """What every quotation of the backend goes through that ends in an error, a log or a status."""
    on_late: Callable[[int], None] = staticmethod(lambda request_id: None)
    """Where requests share a stream: told the id of one whose response came when nobody waited for it any more."""
    forwarding: HeaderForwarding | None = None
    """Which headers of a client's request go with it; None where the connection or the transport has none."""
    stream_per_request = False
    """Each exchange has a stream of its own, so ending it tells the backend that its request is cancelled."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, or start the process. Raises ChannelError; a caller bounds the time."""

    @abstractmethod
    async def exchange(
        self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes = b""
    ) -> Envelope:
        """Send the request ``body``, whose JSON-RPC id is ``request_id``, and return its response. ``headers`` are
        further HTTP header lines, ended by CRLF each; transports without headers ignore them.

        Messages that the transport can attribute to this exchange (those on the SSE stream of the POST) go to
        the ``on_message`` given here, all others to the channel's own. Raises ChannelError. Cancelling
        the call forgets the exchange and leaves the channel usable.
        """

    @abstractmethod
    async def send(self, body: bytes) -> None:
        """Send a notification, or a response to a request of the backend. Raises ChannelError."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the session for good: DELETE sent, socket closed, process group gone. Never raises, may be
        called twice; returns only when that is true."""

    def negotiated(self, protocol_version: str) -> None:  # noqa: B027  (most transports need not know)
        """Told once a protocol version is agreed on; empty text takes it back."""

    def listen(self) -> None:  # noqa: B027  (most transports receive at any time anyway)
        """Start receiving messages outside exchanges, where that takes an own request (HTTP GET)."""
