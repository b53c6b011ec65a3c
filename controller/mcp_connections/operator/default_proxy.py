"""The McpProxy that comes with the operator: made from a ConfigMap, and owned by it.

An installer cannot send a resource together with its definition: Helm looks up every kind before it sends the first
object. So it sends a ConfigMap, and the operator, which starts once the definitions are there, makes the McpProxy of
it. As the ConfigMap owns it, whatever removes the one removes the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, NamedTuple

import yaml

from mcp_connections.operator.cluster import CONFIG_MAP, PROXY, Cluster, ClusterError, Object
from mcp_connections.operator.events import Recorder, Transition

log = logging.getLogger(__name__)

KEY = "mcpproxy.yaml"
"""Key of the ConfigMap that holds the manifest."""
LOOK = 15.0
"""Seconds between two looks at the ConfigMap and the McpProxy. A change that is noticed brings the next one forward."""
PAUSE = 1.0
"""Seconds between two looks at the least."""
REASON = "DefaultProxyFailed"


class ConfigMapName(NamedTuple):
    """Where the manifest is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DefaultProxy:
    """Keeps the McpProxy as the ConfigMap says."""

    def __init__(self, cluster: Cluster, source: ConfigMapName, recorder: Recorder) -> None:
        self._cluster = cluster
        self._source = source
        self._recorder = recorder
        self._applied: tuple[str, str, int] | None = None
        self._complaint = ""
        self._changed = asyncio.Event()

    def notice(self, namespace: str | None) -> None:
        """Something changed in ``namespace`` that may be the ConfigMap or the McpProxy."""
        if namespace == self._source.namespace:
            self._changed.set()

    async def run(self) -> None:
        """Never returns by itself."""
        while True:
            self._changed.clear()
            try:
                await self.look()
            except Exception:
                log.exception("The default McpProxy of ConfigMap %s: the look failed", self._source)
            # Whatever else changes in the namespace must not have it look without end.
            await asyncio.sleep(PAUSE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK)

    async def look(self) -> None:
        """Bring the McpProxy about if it is not as it should be. What stands in the way is logged once, and recorded
        as an Event of the ConfigMap where there is one."""
        source: Object | None = None
        try:
            source = await self._cluster.get(CONFIG_MAP, *self._source)
            await self._bring_about(source)
        except (ClusterError, _Unusable) as error:
            await self._complain(source, str(error))
        else:
            self._complaint = ""

    async def _bring_about(self, source: Object | None) -> None:
        if source is None:
            raise _Unusable("it does not exist. Create it, or start the operator without --default-proxy")
        if "deletionTimestamp" in source["metadata"]:
            return
        body = self._body(source)
        name = body["metadata"]["name"]
        live = await self._cluster.get(PROXY, self._source.namespace, name)
        if live is not None:
            if not self._is_ours(live):
                raise _Unusable(
                    f"there is an McpProxy {self._source.namespace}/{name} already that was not made from it: delete "
                    "that one, or install without the default McpProxy (proxy.create=false)"
                )
            if self._applied == _state(source, live):
                return
        live = await self._cluster.apply(PROXY, body)
        if self._applied is None or self._applied[0] != source["metadata"]["resourceVersion"]:
            log.info("McpProxy %s/%s is as ConfigMap %s says", self._source.namespace, name, self._source)
        self._applied = _state(source, live)

    def _body(self, source: Object) -> Object:
        try:
            body: Any = yaml.safe_load((source.get("data") or {}).get(KEY) or "")
        except yaml.YAMLError as error:
            raise _Unusable(f"its key {KEY} is not YAML: {error}") from error
        metadata: Any = body.get("metadata") if isinstance(body, dict) else None
        named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
        if not named or (body.get("apiVersion"), body.get("kind")) != (PROXY.api_version, PROXY.kind):
            raise _Unusable(f"its key {KEY} must hold one {PROXY.kind} of {PROXY.api_version} with a name")
        owner = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "name": self._source.name,
            "uid": source["metadata"]["uid"],
        }
        metadata |= {"namespace": self._source.namespace, "ownerReferences": [owner]}
        return {**body}

    def _is_ours(self, live: Object) -> bool:
        """Made from this ConfigMap, or from one of its name that was deleted and made anew."""
        owners = live["metadata"].get("ownerReferences") or ()
        return any((owner["kind"], owner["name"]) == (CONFIG_MAP.kind, self._source.name) for owner in owners)

    async def _complain(self, source: Object | None, text: str) -> None:
        if text == self._complaint:
            return
        self._complaint = text
        message = f"The default McpProxy cannot be made from ConfigMap {self._source}: {text}"
        log.error("%s", message)
        if source is not None:
            await self._recorder.record(source, [Transition("Warning", REASON, message)])


class _Unusable(Exception):
    """Nothing can be made of the ConfigMap as it is."""


def _state(source: Object, live: Object) -> tuple[str, str, int]:
    metadata = live["metadata"]
    return source["metadata"]["resourceVersion"], metadata["uid"], int(metadata["generation"])
