"""kopf watches; this turns its events into marks on the trigger and returns.

Only ``kopf.on.event`` is used. Every other kind of handler makes kopf write finalizers or annotations into the
resources, and its indexes keep objects that were deleted while the watch was broken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import kopf

from mcp_connections.operator import cluster
from mcp_connections.operator.cluster import Kind
from mcp_connections.operator.gather import IGNORED_SECRETS, proxy_key
from mcp_connections.operator.labels import MANAGED_BY, MANAGER, owner_of
from mcp_connections.operator.news import News
from mcp_connections.operator.references import References
from mcp_connections.operator.trigger import ProxyKey, Trigger

OWNED_SELECTOR = f"{MANAGED_BY}={MANAGER}"


def register(
    registry: kopf.OperatorRegistry,
    trigger: Trigger,
    references: References,
    *,
    notice: Callable[[str], None] = lambda _: None,
) -> None:
    """Add all handlers to ``registry``. ``notice`` gets the namespace of each ConfigMap and McpProxy that changes."""
    watcher = _Watcher(trigger, references, notice)
    for kind, handle in (
        (cluster.CONNECTION, watcher.connection),
        (cluster.PROXY, watcher.proxy),
        (cluster.SECRET, watcher.secret),
        (cluster.CONFIG_MAP, watcher.config_map),
        (cluster.DEPLOYMENT, watcher.deployment),
        (cluster.POD, watcher.pod),
    ):
        kopf.on.event(*_selector(kind), registry=registry, id=kind.plural)(handle)


def select(settings: kopf.OperatorSettings) -> None:
    """Have the API server leave out what no handler is interested in."""
    for kind in (cluster.DEPLOYMENT, cluster.POD):
        settings.watching.label_selectors[_selector(kind)] = OWNED_SELECTOR
    settings.watching.field_selectors[_selector(cluster.SECRET)] = IGNORED_SECRETS


class _Watcher:
    def __init__(
        self, trigger: Trigger, references: References, notice: Callable[[str], None] = lambda _: None
    ) -> None:
        self._trigger = trigger
        self._references = references
        self._notice = notice
        self._news = News()

    async def connection(self, event: Mapping[str, Any], **_: Any) -> None:
        """A connection concerns the proxy it names, and the one it named before."""
        body = event["object"]
        before = self._news.previous(body["metadata"]["uid"])
        key = proxy_key(body)
        if self._is_news(event, key, _generation(body)):
            self._trigger.mark(key)
            if isinstance(before, tuple) and before[0] != key:
                self._trigger.mark(before[0])

    async def proxy(self, event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        key = ProxyKey(body["metadata"]["namespace"], body["metadata"]["name"])
        if self._is_news(event, key, _generation(body)):
            self._trigger.mark(key)
            self._notice(key.namespace)

    async def secret(self, event: Mapping[str, Any], **_: Any) -> None:
        self._data(event, "Secret")

    async def config_map(self, event: Mapping[str, Any], **_: Any) -> None:
        self._data(event, "ConfigMap")
        self._notice(event["object"]["metadata"]["namespace"])

    async def deployment(self, event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        refused = _condition(body.get("status") or {}, "ReplicaFailure")  # why there is no pod
        self._owned(event, (_generation(body), refused))

    async def pod(self, event: Mapping[str, Any], **_: Any) -> None:
        status = event["object"].get("status", {})
        conditions = (_condition(status, "Ready"), _condition(status, "PodScheduled"))
        containers = status.get("containerStatuses") or ()
        restarts = [each.get("restartCount") for each in containers]
        waiting = [((each.get("state") or {}).get("waiting") or {}).get("reason") for each in containers]
        self._owned(event, (status.get("phase"), status.get("podIP"), conditions, *restarts, *waiting))

    def _data(self, event: Mapping[str, Any], kind: str) -> None:
        """A Secret or ConfigMap: one that somebody refers to, or one of ours that somebody may have changed.

        These have no generation. Only what is referred to is remembered.
        """
        metadata = event["object"]["metadata"]
        users = self._references.users((kind, metadata["namespace"], metadata["name"]))
        if users and self._is_news(event, None, metadata.get("resourceVersion")):
            for key in users:
                self._trigger.mark(key)
        if event["type"] == "DELETED":
            self._owned(event, None)

    def _owned(self, event: Mapping[str, Any], signature: Hashable) -> None:
        name = owner_of(event["object"])
        if name is not None:
            key = ProxyKey(event["object"]["metadata"]["namespace"], name)
            if self._is_news(event, key, signature):
                self._trigger.mark(key)

    def _is_news(self, event: Mapping[str, Any], key: ProxyKey | None, signature: Hashable) -> bool:
        metadata = event["object"]["metadata"]
        if event["type"] == "DELETED":
            self._news.forget(metadata["uid"])
            return True
        return self._news.is_new(metadata["uid"], (key, metadata.get("deletionTimestamp"), signature))


def _condition(status: Mapping[str, Any], kind: str) -> str | None:
    return next((each.get("status") for each in status.get("conditions") or () if each.get("type") == kind), None)


def _generation(body: Mapping[str, Any]) -> int:
    return int(body["metadata"].get("generation") or 0)


def _selector(kind: Kind) -> tuple[str, str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural
