"""Which proxies depend on which Secrets and ConfigMaps: a filter for events, rebuilt by every pass.

It is never the truth. A reference that it misses costs a wait until the next resync, not correctness.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_connections.operator.trigger import ProxyKey

Owner = tuple[str, str, str]
"""Kind, namespace and name of a Secret or ConfigMap."""


class References:
    """Bounded by the references that exist: what a proxy no longer refers to is dropped with its next pass."""

    def __init__(self) -> None:
        self._by_proxy: dict[ProxyKey, frozenset[Owner]] = {}
        self._users: dict[Owner, set[ProxyKey]] = {}

    def replace(self, key: ProxyKey, owners: Iterable[Owner]) -> None:
        """The connections of ``key``, and the proxy itself, refer to exactly ``owners``."""
        new = frozenset(owners)
        old = self._by_proxy.pop(key, frozenset())
        for owner in old - new:
            users = self._users[owner]
            users.discard(key)
            if not users:
                del self._users[owner]
        for owner in new - old:
            self._users.setdefault(owner, set()).add(key)
        if new:
            self._by_proxy[key] = new

    def users(self, owner: Owner) -> frozenset[ProxyKey]:
        """The proxies that depend on ``owner``."""
        return frozenset(self._users.get(owner, ()))
