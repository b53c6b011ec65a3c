"""Opening sessions with one backend, whose era may not be known yet, and seeing to it that each of them ends.

A refusal of one era's opening is the only sign of the other that counts; silence and broken transports say nothing
(basic/versioning, Backward Compatibility).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from mcp_connections.mounts.report import Phase
from mcp_connections.mounts.spec import Timeouts
from mcp_connections.proxy.channels.channel import HandshakeRefused
from mcp_connections.proxy.channels.connecting import ChannelFactory
from mcp_connections.proxy.upstream.endings import Endings
from mcp_connections.proxy.upstream.handshake import HandshakeSession
from mcp_connections.proxy.upstream.session import UpstreamEvents, UpstreamSession
from mcp_connections.proxy.upstream.stateless import StatelessSession
from mcp_connections.proxy.wire.eras import Era
from mcp_connections.proxy.wire.hello import Hello

_SESSIONS: dict[Era, type[UpstreamSession]] = {"handshake": HandshakeSession, "stateless": StatelessSession}


class Opener:
    """All sessions of one mount come from here, and what is left of them is known here."""

    def __init__(self, channels: ChannelFactory, timeouts: Timeouts) -> None:
        self._channels = channels
        self._timeouts = timeouts
        self._endings = Endings()

    async def open(
        self,
        eras: tuple[Era, ...],
        hello: Hello,
        events: UpstreamEvents,
        entered: Callable[[Phase], None] = lambda phase: None,
    ) -> UpstreamSession:
        """A session of the first of ``eras`` that the backend does not refuse; ``entered`` is told of each phase.

        Raises ChannelError, the one of the first era where all are refused; nothing is left behind then.
        """
        entered("Connect")
        channel = self._channels.make()
        refusal: HandshakeRefused | None = None
        for era in eras:
            session = _SESSIONS[era](channel, hello=hello, timeouts=self._timeouts, events=events)
            try:
                if refusal is None:
                    await session.connect()
                entered("Initialize")
                await session.begin(self._channels.handshake_seconds)
            except HandshakeRefused as error:
                refusal = refusal or error
                if era == eras[-1]:
                    self.close(session)
            except BaseException:
                self.close(session)
                raise
            else:
                return session
        assert refusal is not None
        raise refusal

    def close(self, session: UpstreamSession) -> None:
        """End a session in the background."""
        self.end(session.aclose())

    def end(self, ending: Coroutine[Any, Any, None]) -> None:
        """See something that is being ended through to its end, in the background."""
        self._endings.add(ending)

    async def aclose(self) -> None:
        """Return once everything that was ended has ended, and let go of what the sessions shared."""
        await self._endings.wait()
        self._channels.close()
