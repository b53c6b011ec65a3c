"""How many requests each client may make (``spec.rateLimit`` of the McpProxy).

A client is the subject of a JSON Web Token, whichever sessions it has. Without one there is nobody to tell apart but by
session, or in the stateless era by what clients say of themselves.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from mcp_connections.mounts.spec import RateLimit
from mcp_connections.proxy.policies.policy import bucket, in_words
from mcp_connections.proxy.policies.refusals import RATE, refusal
from mcp_connections.proxy.policies.token_bucket import TokenBucket
from mcp_connections.proxy.registry.client import Client

MAX_SUBJECTS: Final = 10_000
"""Those not heard of for longest are forgotten, and begin anew."""


class ClientRates:
    """The token buckets of all clients of one process."""

    def __init__(self) -> None:
        self._limit: RateLimit | None = None
        self._by_subject: OrderedDict[str, TokenBucket] = OrderedDict()
        self._by_session: WeakKeyDictionary[Client, TokenBucket] = WeakKeyDictionary()

    def check(self, limit: RateLimit, client: Client) -> None:
        """Count a request of ``client``. Raises RpcError where it is one too many."""
        if limit is not self._limit:
            self._adopt(limit)
        wait = self._bucket(limit, client).take(asyncio.get_running_loop().time())
        if wait:
            raise refusal("the endpoint", RATE, f"rateLimit of the McpProxy allows {in_words(limit)}", wait, {})

    def _adopt(self, limit: RateLimit) -> None:
        # Every reload brings a new object; only another limit is a reason to begin anew.
        if limit != self._limit:
            self._by_subject.clear()
            self._by_session.clear()
        self._limit = limit

    def _bucket(self, limit: RateLimit, client: Client) -> TokenBucket:
        if not client.principal.claims:
            found = self._by_session.get(client)
            if found is None:
                found = self._by_session[client] = bucket(limit)
            return found
        subject = client.principal.key
        found = self._by_subject.get(subject)
        if found is None:
            found = self._by_subject[subject] = bucket(limit)
            if len(self._by_subject) > MAX_SUBJECTS:
                self._by_subject.popitem(last=False)
        self._by_subject.move_to_end(subject)
        return found
