"""How often the command of a stdio connection ended by itself, over all the sessions of one mount.

Each session has a process of its own, and one that ends is started again at once: without a count, a command that dies
in every other call would look as well as one that never does. Behind a bridge it is the bridge that counts, as it sees
all processes; what it tells of a fault carries its count.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from mcp_connections.proxy.channels.channel import ChannelError, Exited


class Exits:
    """The count of one mount, or of one bridge."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        """Tells the count of one process from that of its successor, which begins anew."""
        self.count = 0
        self.on_exit: Callable[[str], None] = lambda text: None
        """Told how a command ended: exit code or signal, and the tail of its stderr."""
        self._teller = ""
        self._told = 0

    def happened(self, error: ChannelError) -> None:
        """A process of this side is gone."""
        if isinstance(error, Exited):
            self._add(1, error)

    def told(self, error: ChannelError, teller: str, count: int) -> None:
        """A bridge, whose count has the id ``teller``, told of ``error``; the count may be that of earlier ends too."""
        if teller != self._teller:
            self._teller, self._told = teller, 0
        if count > self._told:  # faults may overtake one another
            self._add(count - self._told, error)
            self._told = count

    def _add(self, more: int, error: ChannelError) -> None:
        self.count += more
        if error.reason == Exited.reason:
            self.on_exit(str(error))
