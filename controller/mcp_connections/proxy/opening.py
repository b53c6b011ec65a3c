"""Opening a session with a backend whose era may not be known yet.

A refusal of one era's opening is the only sign of the other that counts; silence and broken transports say nothing
(basic/versioning, Backward Compatibility). The handshake comes first: a backend of both eras then gives clients of the
older one what they are used to, and the newer one asks nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp_connections.mounts.report import Phase
from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.channel import HandshakeRefused
from mcp_connections.proxy.connecting import ChannelFactory
from mcp_connections.proxy.eras import Era
from mcp_connections.proxy.handshake import HandshakeSession
from mcp_connections.proxy.stateless import StatelessSession
from mcp_connections.proxy.upstream import Hello, UpstreamEvents, UpstreamSession

_SESSIONS: dict[Era, type[UpstreamSession]] = {"handshake": HandshakeSession, "stateless": StatelessSession}


async def open_session(
    channels: ChannelFactory,
    *,
    eras: tuple[Era, ...],
    hello: Hello,
    timeouts: Timeouts,
    events: UpstreamEvents,
    close: Callable[[UpstreamSession], None],
    entered: Callable[[Phase], None] = lambda phase: None,
) -> UpstreamSession:
    """A session of the first of ``eras`` that the backend does not refuse.

    ``entered`` is told of each phase, ``close`` is given a session that came to nothing. Raises ChannelError: the
    one of the first era, where all are refused.
    """
    entered("Connect")
    channel = channels.make()
    refusal: HandshakeRefused | None = None
    for era in eras:
        session = _SESSIONS[era](channel, hello=hello, timeouts=timeouts, events=events)
        try:
            if refusal is None:
                await session.connect()
            entered("Initialize")
            await session.begin(channels.handshake_seconds)
        except HandshakeRefused as error:
            refusal = refusal or error
            if era == eras[-1]:
                close(session)
        except BaseException:
            close(session)
            raise
        else:
            return session
    assert refusal is not None
    raise refusal
